"""A real `serve` with embedded clients, as a caller with a key of its own tries to get at another one's data."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.places import ROOT
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.tenants.access import hash_key
from zorivest_rpc.tenants.embedded import directory_of

WAIT = 60.0
KEYS = {"a": "zrv_ak_of_a", "ab": "zrv_ak_of_ab", "all": "zrv_ak_of_all"}
FILE = f"""\
[clients.a]
embedded = true
[clients.b]
embedded = true
name = "Second"
[clients.hurried]
embedded = true
httpTimeoutMs = 200
[[access]]
keySha256 = "{hash_key(KEYS["a"])}"
name = "one"
clients = ["a"]
[[access]]
keySha256 = "{hash_key(KEYS["ab"])}"
name = "two"
clients = ["a", "b"]
[[access]]
keySha256 = "{hash_key(KEYS["all"])}"
name = "three"
clients = "*"
"""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Served:
    """A server process, and modern requests to it."""

    def __init__(self, home: Path, *options: str, text: str = FILE) -> None:
        self.data = home / "data"
        self.log = home / "serve.log"
        self.file = file = home / "clients.toml"
        file.write_text(text)
        file.chmod(0o600)
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("ZORIVEST_", "CLIENTS_"))}
        environ |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
        words = ["serve", "--port", "0", "--data-dir", str(self.data), "--tenants-file", str(file)]
        words += ["--log-file", str(self.log), "--log-level", "info", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zorivest_rpc", *words], env=environ, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        assert " listens on http://127.0.0.1:" in first, first
        self.port = int(first.partition("127.0.0.1:")[2].partition("/")[0])
        self._ids = itertools.count(1)
        self.said: list[str] = [first]

    def headers(self, key: str, method: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {KEYS[key]}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
        }

    def post(self, key: str, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)) as connection:
            named = {"Mcp-Name": str(params.get("name") or params.get("uri"))} if params else {}
            sent = {**self.headers(key, method), **named, **(headers or {})}
            body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": {**params, "_meta": META}}
            connection.request("POST", "/mcp", json.dumps(body), sent)
            text = connection.getresponse().read().decode()
        self.said.append(text)
        if not text.startswith("{"):
            text = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()][-1]
        return json.loads(text)

    def call(self, key: str, tool: str, **arguments: Any) -> Any:
        return self.post(key, "tools/call", {"name": tool, "arguments": arguments})["result"]

    def text(self, key: str, tool: str, **arguments: Any) -> str:
        return str(self.call(key, tool, **arguments)["content"][0]["text"])

    def write(self, key: str, tool: str, client: str, **arguments: Any) -> Any:
        """A gated call, with a token of the same client."""
        asked: dict[str, Any] = {"action": tool, "params_summary": "as the test says", "clientId": client}
        issued = self.call(key, "get_confirmation_token", **asked)
        assert "structuredContent" in issued, issued
        token = issued["structuredContent"]["token"]
        return self.call(key, tool, clientId=client, confirmation_token=token, **arguments)

    def clients(self, key: str) -> list[str]:
        """The ids that list_clients names; none where the key is no key any more."""
        answer = self.post(key, "tools/call", {"name": "list_clients", "arguments": {}})
        listed = answer["result"]["structuredContent"]["clients"] if "result" in answer else []
        return [client["id"] for client in listed]

    def read_again(self, text: str, line: str) -> None:
        """Change the file, and wait until the server has said what it made of it."""
        said = self.log.read_text().count(line)
        self.file.write_text(text)
        os.kill(self.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + WAIT
        while self.log.read_text().count(line) == said:
            assert time.monotonic() < deadline, self.log.read_text()
            self.clients("all")

    def end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=WAIT)


def end_backends(data: Path) -> None:
    for runtime in data.rglob("runtime.json"):
        if (located := find(runtime.parent)) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(located.pid)
                process.terminate()
                process.wait(WAIT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"), "--embedded-running", "2")
    yield made
    made.end()
    end_backends(made.data)


TRADE = {"account_id": "ACC", "exec_id": "E1", "action": "BOT", "quantity": 1, "price": 1.0}


def test_equal_accounts_and_executions_of_two_clients_have_nothing_to_do_with_each_other(served: Served) -> None:
    for client, symbol in (("a", "AAAA"), ("b", "BBBB")):
        done = served.write("ab", "create_trade", client, instrument=symbol, **TRADE)
        assert not done.get("isError"), done
        assert done["content"][-1]["text"].endswith(f"(client {client})")
        assert done["_meta"]["com.zorivest/client"]["id"] == client
        assert done["_meta"]["com.zorivest/receipt"]["tenant"] == client
    for client, symbol in (("a", "AAAA"), ("b", "BBBB")):
        listed = served.call("ab", "list_trades", clientId=client)
        assert [trade["instrument"] for trade in listed["structuredContent"]["items"]] == [symbol]
    directories = [directory_of(served.data, client) for client in ("a", "b")]
    assert len({(path / "api.key").read_text() for path in directories}) == 2


def test_a_read_through_call_tool_keeps_its_text(served: Served) -> None:
    direct = served.text("a", "list_trades", clientId="a")
    assert served.text("a", "call_tool", clientId="a", name="list_trades", arguments={}) == direct
    json.loads(direct)
    inner = {"name": "list_clients", "arguments": {}}
    json.loads(served.text("a", "call_tool", clientId="a", **inner))


def test_a_full_disk_of_one_client_stops_what_it_writes_and_nothing_of_another(served: Served) -> None:
    """No file of that backend may grow: what a full disk does, done by the kernel."""

    def write(client: str, theme: str) -> Any:
        return served.call("ab", "update_settings", clientId=client, settings={"ui.theme": theme})

    for client in ("a", "b"):
        assert not write(client, "dark").get("isError")
    located = find(directory_of(served.data, "a"))
    assert located is not None
    resource.prlimit(located.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        text = write("a", "light")["content"][0]["text"]
        assert text.startswith('Client "a": ')
        for theme in ("light", "dark") * 10:
            assert not write("b", theme).get("isError")
        read = served.call("ab", "get_settings", clientId="a")
        assert not read.get("isError"), read
        assert "dark" in json.dumps(read), "what was saved is still read"
    finally:
        resource.prlimit(located.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert not write("a", "light").get("isError")


@pytest.mark.parametrize(
    "place",
    [
        "{b}/imports/x.csv",
        "{a}/imports/../../b/imports/x.csv",
        "../../b/imports/x.csv",
        "{a}/imports/link.csv",
        "link.csv",
        "{b}/api.key",
        "{a}/api.key",
        "{data}/imports/x.csv",
        "{data}/session.key",
        "/etc/passwd",
    ],
)
def test_no_file_of_another_client_or_of_the_server_is_read(served: Served, place: str) -> None:
    a, b = (directory_of(served.data, client) for client in ("a", "b"))
    for directory in (a, b, served.data):
        (directory / "imports").mkdir(parents=True, exist_ok=True)
    for directory in (b, served.data):
        (directory / "imports" / "x.csv").write_text("Symbol,Side,Quantity,Price,Time\nPLANTED,BUY,1,1.0,2026-01-05\n")
    with contextlib.suppress(FileExistsError):
        (a / "imports" / "link.csv").symlink_to(b / "imports" / "x.csv")
    path = place.format(a=a, b=b, data=served.data)
    done = served.call("a", "import_broker_csv", clientId="a", file_path=path, account_id="ACC")
    assert done["isError"], done
    assert "is not in a directory that may be read" in done["content"][0]["text"]
    assert "PLANTED" not in json.dumps(done)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("b", "client_unknown"),
        ("hurried", "client_unknown"),
        ("ghost", "client_unknown"),
        ("__proto__", "client_invalid"),
        ("../b", "client_invalid"),
        ("a/../b", "client_invalid"),
        ("a\u0000b", "client_invalid"),
        ("\u212a", "client_invalid"),
        ("*", "client_invalid"),
        (["b"], "client_invalid"),
        ({"a": "b"}, "client_invalid"),
        (None, "client_missing"),
        ("  ", "client_missing"),
    ],
)
def test_no_spelling_reaches_a_client_that_is_not_granted(served: Served, given: Any, code: str) -> None:
    for words in ({"clientId": given}, {"clientId": given, "name": "list_trades", "arguments": {"clientId": "b"}}):
        done = served.call("a", "call_tool" if "name" in words else "list_trades", **words)
        assert done["isError"]
        assert done["_meta"]["com.zorivest/error"]["code"] == code
        assert "Second" not in json.dumps(done)


def test_a_client_that_is_not_granted_reads_like_one_that_does_not_exist(served: Served) -> None:
    told = [json.dumps(served.call("a", "list_trades", clientId=id)) for id in ("b", "hurried", "ghost")]
    assert len({text.replace(f'\\"{id}\\"', "") for text, id in zip(told, ("b", "hurried", "ghost"), strict=True)}) == 1


@pytest.mark.parametrize("uri", ["zorivest://guard", "zorivest://toolsets", "pipeline://policies/schema"])
def test_no_uri_reaches_a_client_that_is_not_granted(served: Served, uri: str) -> None:
    for query in ("clientId=b", "clientId=a&clientId=b", "clientId=b&clientId=a", "clientid=b", "clientId=b#a", ""):
        answer = served.post("a", "resources/read", {"uri": f"{uri}?{query}" if query else uri})
        assert answer["error"]["code"] == -32602, answer
    assert "error" not in served.post("a", "resources/read", {"uri": f"{uri}?clientId=a"})


def test_a_token_of_one_client_opens_nothing_of_another(served: Served) -> None:
    asked: dict[str, Any] = {"action": "create_trade", "params_summary": "x", "clientId": "a"}
    token = served.call("ab", "get_confirmation_token", **asked)["structuredContent"]["token"]
    trade = {**TRADE, "exec_id": "E2", "instrument": "STOLEN", "confirmation_token": token}
    for key, client in (("ab", "b"), ("a", "a"), ("all", "a")):
        assert served.call(key, "create_trade", clientId=client, **trade)["isError"]
    assert "STOLEN" not in served.text("ab", "list_trades", clientId="b")
    assert not served.call("ab", "create_trade", clientId="a", **trade).get("isError")


def test_the_list_the_metrics_and_completions_name_no_other_client(served: Served) -> None:
    served.call("all", "list_trades", clientId="b")
    listed = json.dumps(served.post("a", "tools/list", {}))
    assert '"enum": ["a"]' in listed
    answers = [
        listed,
        json.dumps(served.post("a", "resources/list", {})),
        json.dumps(served.post("a", "prompts/list", {})),
    ]
    ref = {"ref": {"type": "ref/prompt", "name": "weekly_review"}, "argument": {"name": "clientId", "value": ""}}
    completed = served.post("a", "completion/complete", ref)
    assert completed["result"]["completion"]["values"] == ["a"]
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT)) as connection:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {KEYS['a']}"})
        answers.append(connection.getresponse().read().decode())
    assert 'tenant="a"' in answers[-1]
    for text in answers:
        assert "hurried" not in text
        assert 'tenant="b"' not in text
        assert "clientId=b" not in text
        assert "Second" not in text


def test_a_stop_of_all_is_a_stop_of_what_is_granted(served: Served) -> None:
    assert not served.write("a", "zorivest_emergency_stop", "a", reason="x").get("isError")
    try:
        states = {
            client: json.loads(served.text("ab", "zorivest_diagnose", clientId=client))["guard"]["locked"]
            for client in ("a", "b")
        }
        assert states == {"a": True, "b": False}
    finally:
        released = served.call("a", "zorivest_emergency_unlock", clientId="a", confirm="UNLOCK")
    assert not released.get("isError"), released


def test_a_client_without_a_place_in_time_is_told_so(served: Served) -> None:
    """Two may run, and they do; ending one takes longer than this client waits."""
    for client in ("a", "b"):
        served.call("ab", "list_trades", clientId=client)
    done = served.call("all", "list_trades", clientId="hurried")
    assert done["isError"]
    assert done["content"][0]["text"] == 'Client "hurried": the backend gave no answer within 200 ms.'
    running = [client for client in ("a", "b", "hurried") if find(directory_of(served.data, client)) is not None]
    assert len(running) <= 2


def legacy(served: Served, key: str, method: str, path: str, session: str | None, body: Any = None) -> tuple[int, str]:
    """One request of 2025-11-25: its status, and the session id or the text of the answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT)) as connection:
        sent = {
            "Authorization": f"Bearer {KEYS[key]}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
            **({"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"} if session else {}),
        }
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        if answer.status == 200 and method == "GET":
            return answer.status, ""  # a stream without an end
        return answer.status, answer.getheader("Mcp-Session-Id") or answer.read().decode()


def test_a_session_belongs_to_the_key_that_opened_it(served: Served) -> None:
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    status, session = legacy(
        served, "a", "POST", "/mcp", None, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening}
    )
    assert status == 200
    legacy(served, "a", "POST", "/mcp", session, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    for key in ("ab", "all"):
        for method, body in (("POST", listing), ("GET", None), ("DELETE", None)):
            assert legacy(served, key, method, "/mcp", session, body)[0] == 404, (key, method)
    status, listed = legacy(served, "a", "POST", "/mcp", session, listing)
    assert (status, '"enum":["a"]' in listed) == (200, True), "the others ended nothing"


def test_the_oldest_transport_keeps_clients_apart_too(served: Served) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT)) as connection:
        connection.request("GET", "/sse", headers={"Authorization": f"Bearer {KEYS['a']}"})
        stream = connection.getresponse()
        endpoint = next(line for line in iter(stream.readline, b"") if line.startswith(b"data:"))[5:].strip().decode()
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert legacy(served, "ab", "POST", endpoint, None, ping)[0] == 404
        assert legacy(served, "a", "POST", endpoint, None, ping)[0] == 202
        stream.close()


def test_what_a_caller_says_of_itself_in_meta_is_no_permission(served: Served) -> None:
    said = {**META, "com.zorivest/client": {"id": "b"}, "clientId": "b", "com.zorivest/tenant": "b"}
    params = {"name": "list_trades", "arguments": {}, "clientId": "b", "_meta": said}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT)) as connection:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {**served.headers("a", "tools/call"), "Mcp-Name": "list_trades", "Mcp-Param-Client-Id": "b"}
        connection.request("POST", "/mcp", json.dumps(body), headers)
        text = connection.getresponse().read().decode()
    assert "client_missing" in text or '"error"' in text
    assert '"items"' not in text


def test_no_key_is_in_what_was_said_or_logged(served: Served) -> None:
    served.text("all", "zorivest_diagnose", clientId="a", verbose=True)
    keys = [*KEYS.values(), *(path.read_text().strip() for path in served.data.rglob("api.key"))]
    hashes = [rule["keySha256"] for rule in tomllib.loads(FILE)["access"]]
    logs = [path.read_text(errors="replace") for path in (served.log, *served.data.rglob("*.jsonl"))]
    for secret in (*keys, *hashes):
        assert not any(secret in text for text in (*served.said, *logs))


def test_kill_9_of_the_server_leaves_no_backend_behind(tmp_path: Path) -> None:
    served = Served(tmp_path, "--idle-exit", "1")
    try:
        assert not served.call("a", "list_trades", clientId="a").get("isError")
        located = find(directory_of(served.data, "a"))
        assert located is not None
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.communicate(timeout=WAIT)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(located.pid).wait(WAIT)
        assert find(directory_of(served.data, "a")) is None
    finally:
        end_backends(served.data)


def test_the_file_is_read_again_on_sighup_and_a_revoked_key_opens_nothing(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        (directory_of(served.data, "b")).mkdir(parents=True)
        (directory_of(served.data, "b") / "bootstrap.json").write_text("{}")
        assert [served.clients(key) for key in KEYS] == [["a"], ["a", "b"], ["a", "b", "hurried"]]

        broken = FILE.replace('clients = ["a", "b"]', 'clients = ["a", "ghost"]')
        served.read_again(broken, 'the clients stay as they were: access[1]: unknown client "ghost"')
        served.read_again(FILE.partition("[[access]]")[0], "whether there are access rules needs a restart")
        assert [served.clients(key) for key in KEYS] == [["a"], ["a", "b"], ["a", "b", "hurried"]]

        head, _, rules = FILE.partition("[clients.b]")
        _, _, rest = rules.partition("[clients.hurried]")
        _, two, three = rest.split("[[access]]")[1:]
        without = f"{head}[clients.late]{rest.partition('[[access]]')[0]}[[access]]{two}[[access]]{three}"
        served.read_again(
            without.replace('clients = ["a", "b"]', 'clients = ["late"]'), "was read again: 2 clients, 2 keys"
        )
        assert [served.clients(key) for key in KEYS] == [[], ["late"], ["a", "late"]]
        refused = served.post("a", "tools/list", {})
        assert refused["error"]["code"] == -32600
        assert served.call("ab", "list_trades", clientId="a")["_meta"]["com.zorivest/error"]["code"] == "client_unknown"
        stays = f"{directory_of(served.data, 'b')}: no client is configured for this journal; it stays as it is"
        assert stays in served.log.read_text()
        assert directory_of(served.data, "b").exists()
    finally:
        served.end()
        end_backends(served.data)
