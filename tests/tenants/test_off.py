"""Without several clients what would choose among them is nothing, and the log says so to whom it tells everything."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.places import ROOT

WAIT = 30.0


def test_the_header_of_several_clients_is_ignored_and_the_log_says_so_once_a_message(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ZORIVEST_", "CLIENTS_"))}
    words = ["serve", "--showcase", "--no-auth", "--port", "0", "--data-dir", str(tmp_path / "data")]
    words += ["--log-file", str(log), "--log-level", "debug"]
    process = subprocess.Popen(
        [sys.executable, "-m", "zorivest_rpc", *words],
        env={**environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        port = int(first.partition("127.0.0.1:")[2].partition("/")[0])
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        sent |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
        answers = []
        for headers in (sent, {**sent, "X-Client-ID": "planted"}):
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
                connection.request("POST", "/mcp", body, headers)
                answers.append(connection.getresponse().read())
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)
    assert answers[0] == answers[1]
    assert b"planted" not in answers[1]
    said = log.read_text()
    assert said.count("the header X-Client-ID is ignored: this server has one client") == 1
    assert "planted" not in said
