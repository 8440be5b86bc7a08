"""The doctor on sound and on broken set-ups: what it says, what it advises, and what it never says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.catalogue import ALL, DEFAULT
from tests.cli.conftest import Run
from tests.places import ROOT
from zorivest_rpc import __version__
from zorivest_rpc.cli.checks import backend, clients, journal, machine, web
from zorivest_rpc.cli.checks.line import Line, ok
from zorivest_rpc.cli.checks.web import ask, shown
from zorivest_rpc.clients.command import own_command
from zorivest_rpc.clients.places import locate
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.serving.catalog.load import schemas_dir

KEY = "zrv_sk_" + "k" * 32


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is slow, and that is not what these tests are about."""
    monkeypatch.setattr(web, "PATIENCE", 60.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Without the imports, which take a second; a test of their own looks at them."""
    monkeypatch.setattr(machine, "packages", lambda encrypted: iter([ok("packages", "skipped")]))


@pytest.fixture
def data(home: Path) -> Path:
    path = home / ".local" / "share" / "zorivest"
    path.mkdir(parents=True, mode=0o700)
    return path


def failing(ran: Any) -> dict[str, dict[str, str]]:
    return {line["area"]: line for line in json.loads(ran.out)["checks"] if line["status"] == "fail"}


def settings(*words: str) -> Settings:
    return parse("doctor", list(words), os.environ)


def one(lines: Iterator[Line] | list[Line], area: str) -> Line:
    found = [line for line in lines if line.area == area]
    assert len(found) == 1, found
    return found[0]


# --- the whole


def test_a_fresh_set_up_has_nothing_to_mend_and_is_left_untouched(run: Run, home: Path) -> None:
    ran = run("doctor", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["ok"], failing(ran)) == (0, True, {})
    assert {"python", "packages", "schemas", "options", "clock", "data", "disk", "backend", "key", "port"} <= {
        line["area"] for line in told["checks"]
    }
    assert list(home.iterdir()) == []


def test_the_report_for_people_fits_the_terminal_and_names_the_next_steps(run: Run, quick: None, data: Path) -> None:
    data.chmod(0o755)
    ran = run("doctor")
    assert ran.code == 1
    assert f"fail  data: {data} is open to others (mode 0755)" in " ".join(ran.out.split("\n      "))
    assert f"→ chmod 700 {data}" in ran.out
    assert [line for line in ran.out.splitlines() if len(line) > 80 and "/" not in line] == []
    assert "\x1b" not in ran.out


def test_every_line_that_is_not_well_has_a_next_step(run: Run, quick: None, data: Path, home: Path) -> None:
    (data / "bootstrap.json").write_text("{")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    lines = json.loads(run("doctor", "--json").out)["checks"]
    assert [line for line in lines if line["status"] != "ok" and not line["next"]] == []
    assert [line for line in lines if line["status"] == "ok" and line["next"]] == []


def test_misuse_is_not_a_finding(run: Run) -> None:
    assert run("doctor", "--bogus").code == 2
    assert run("doctor", "--confirm", "maybe").code == 2
    assert "--start" in run("doctor", "--help").out


# --- the machine


def test_the_packages_are_those_of_the_distribution() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(machine.DEPENDENCIES.values()) == {re.split(r"[><=;\s]", each)[0] for each in wanted}


def shadow(directory: Path, *modules: str) -> dict[str, str]:
    """An environment in which these modules cannot be imported."""
    directory.mkdir()
    for name in modules:
        (directory / f"{name}.py").write_text("raise ImportError('gone')\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)])}


def test_a_missing_sqlcipher_is_told_as_what_it_means(tmp_path: Path) -> None:
    environ = shadow(tmp_path / "shadow", "sqlcipher3")
    new = list(machine.packages(False, environ))
    assert [line.status for line in new] == ["warn", "ok"]
    assert "NOT encrypted" in new[0].text
    assert machine._sqlcipher("ImportError", True).status == "fail"


def test_the_doctor_works_where_the_server_cannot_even_be_imported(tmp_path: Path, home: Path) -> None:
    environ = shadow(tmp_path / "shadow", "msgspec", "aiohttp")
    ran = subprocess.run(
        [sys.executable, "-m", "zorivest_rpc", "doctor"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1
    for name in ("msgspec", "aiohttp"):
        assert f"{name} cannot be imported (ImportError)" in ran.stdout
        assert f"pip install --force-reinstall {name}" in " ".join(ran.stdout.split())
    assert ran.stderr == ""


def test_an_old_python_is_refused() -> None:
    assert machine.python((3, 10, 4)).status == "fail"
    assert machine.python((3, 11, 0)).status == "ok"


def test_a_clock_before_a_known_moment_is_wrong() -> None:
    line = machine.clock({"this journal was made": 1_000_000.0}, now=1_000_000.0 - 86_400)
    assert (line.status, "24.0 hours before this journal was made" in line.text) == ("fail", True)
    assert machine.clock({"this journal was made": 1_000_000.0}, now=1_000_000.0 - 60).status == "ok"


def test_a_port_that_another_program_holds_is_named_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]

        def hang_up_twice() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        rude = threading.Thread(target=hang_up_twice)
        rude.start()
        line = machine.port(number)
        rude.join()
    assert line.status == "warn"
    if sys.platform == "linux":
        assert f"pid {os.getpid()}" in line.text
    assert "free" in machine.port(number).text


# --- the disk


def test_a_broken_schema_file_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "schemas"
    shutil.copytree(schemas_dir(), copy)
    (copy / "tools" / "core" / "get_settings.json").write_text("{")
    lines = list(journal.schemas(str(copy)))
    assert {line.status for line in lines} == {"fail"}
    assert "get_settings.json" in lines[0].text


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("toolset-config.json", "{", "toolset-config.json"),
        ("toolset-config.json", '{"defaultToolsets": ["corre"]}', "corre"),
    ],
)
def test_a_wrong_toolset_configuration_is_named(
    run: Run, quick: None, data: Path, name: str, content: str, word: str
) -> None:
    (data / name).write_text(content)
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert word in failing(ran)["options"]["text"]


def test_a_wrong_variable_is_a_finding_and_the_rest_is_still_looked_at(
    run: Run, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_CONFIRM", "maybe")
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert "ZORIVEST_CONFIRM" in failing(ran)["options"]["text"]
    assert "port" in {line["area"] for line in json.loads(ran.out)["checks"]}


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("")
    assert one(journal.directory(str(file)), "data").status == "fail"
    assert "cannot be made" in one(journal.directory(str(file / "below")), "data").text


def test_keys_that_others_can_read_are_named_with_the_command_that_helps(data: Path) -> None:
    for name, mode in (("session.key", 0o644), ("serve.key", 0o640), ("api.key", 0o600)):
        (data / name).write_bytes(b"x" * 32)
        (data / name).chmod(mode)
    lines = list(journal.private_files(str(data)))
    assert [line.status for line in lines] == ["fail", "fail"]
    assert {line.next for line in lines} == {f"chmod 600 {data / 'session.key'}", f"chmod 600 {data / 'serve.key'}"}


def test_a_full_disk_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    for free, status in ((2**20, "fail"), (2**28, "warn"), (2**34, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(1, 1, free))
        assert one(journal.directory(str(tmp_path)), "disk").status == status


# --- the embedded backend


@contextmanager
def stopped_after(data: Path) -> Iterator[None]:
    try:
        yield
    finally:
        if located := find(data):
            os.kill(located.pid, signal.SIGTERM)
            psutil.Process(located.pid).wait(30)


def test_a_backend_is_started_on_request_and_examined_to_the_end(
    run: Run, quick: None, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_BACKEND_PORT", "0")
    with stopped_after(data):
        ran = run("doctor", "--start", "--json")
        areas = {line["area"]: line for line in json.loads(ran.out)["checks"]}
        assert ran.code == 0, failing(ran)
        assert "started" in areas["backend"]["text"]
        assert areas["unlock"]["text"].endswith("as admin")
        assert "encrypted" in areas["journal"]["text"]

        key = (data / "api.key").read_text().strip()
        located = find(data)
        assert located is not None
        opened = ask(located.address, "/auth/unlock", {"api_key": key})
        assert opened is not None
        token = opened.body["session_token"]
        ask(located.address, "/mcp-guard/lock", {"reason": "testing"}, token=token)
        locked = run("doctor", "--json")
        assert locked.code == 1
        assert "testing" in failing(locked)["guard"]["text"]
        assert "zorivest-rpc unlock" in failing(locked)["guard"]["next"]

        ask(located.address, "/mcp-guard/unlock", {}, token=token)
        ask(located.address, "/auth/lock", {}, token=token)
        run("doctor")
        still = ask(located.address, "/auth/status")
        assert still is not None
        assert still.body["locked"] is True  # looking does not unlock
    # It has ended; what can be told from the files alone:
    assert failing(run("doctor", "--json")) == {}
    monkeypatch.setenv("ZORIVEST_API_KEY", KEY)
    wrong = failing(run("doctor", "--json"))["key"]
    assert "is not one of this journal's" in wrong["text"]
    assert "Unset ZORIVEST_API_KEY" in wrong["next"]
    monkeypatch.delenv("ZORIVEST_API_KEY")
    (data / "api.key").rename(data / "lost.key")
    assert "none at hand" in failing(run("doctor", "--json"))["key"]["text"]
    (data / "lost.key").rename(data / "api.key")
    (data / "zorivest.db").write_bytes(b"SQLite format 3\x00" + bytes(100))
    assert "readable without a key" in failing(run("doctor", "--json"))["journal"]["text"]
    (data / "bootstrap.json").write_text('{"keys": ')
    assert "damaged" in failing(run("doctor", "--json"))["vault"]["text"]


def test_a_vault_tells_revoked_and_expired_keys_apart() -> None:
    key = {"lookup_sha256": "f", "created_at": "2026-01-01T00:00:00Z", "expires_at": None, "revoked": False}

    def standing(**changes: Any) -> str:
        return journal.Bootstrap({"cipher": "none", "keys": [{**key, **changes}]}).standing("f", time.time())

    assert standing() == "valid"
    assert standing(revoked=True) == "revoked"
    assert standing(expires_at="2020-01-01T00:00:00Z") == "expired"
    assert standing(lookup_sha256="g") == "unknown"


# --- a remote backend

Reply = tuple[int, Any]


@contextmanager
def answering(answers: dict[str, Reply], date: float | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server with these answers by path, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path + " " + self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            status, body = answers.get(self.path, (404, {}))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(date)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HEALTHY: dict[str, Reply] = {
    "/api/v1/health": (200, {"status": "ok", "version": "2.1", "database": {"unlocked": True}}),
    "/api/v1/auth/unlock": (200, {"session_token": "t", "role": "read-only"}),
    "/api/v1/mcp-guard/status": (200, {"is_locked": False, "is_enabled": True}),
}


def remote(url: str, environ: dict[str, str] | None = None) -> dict[str, Line]:
    given = {"ZORIVEST_API_KEY": KEY} if environ is None else environ
    return {line.area: line for line in backend.remote(settings("--api-url", url), given)}


def test_a_remote_backend_that_is_well(home: Path) -> None:
    with answering(HEALTHY) as (url, asked):
        lines = remote(url)
    assert {area: line.status for area, line in lines.items()} == {"backend": "ok", "unlock": "ok", "guard": "ok"}
    assert "as read-only" in lines["unlock"].text
    assert asked[1] == f'/api/v1/auth/unlock {{"api_key": "{KEY}"}}'


@pytest.mark.parametrize(
    ("answers", "area", "word"),
    [
        ({"/api/v1/health": (200, b"<html>")}, "backend", "not as a Zorivest backend"),
        ({"/api/v1/health": (200, [])}, "backend", "not as a Zorivest backend"),
        ({"/api/v1/health": (502, {})}, "backend", "answers 502"),
        ({"/api/v1/health": (302, b"http://127.0.0.1:1/")}, "backend", "answers 302"),
        ({"/api/v1/auth/unlock": (401, {})}, "unlock", "answered 401"),
        ({"/api/v1/auth/unlock": (403, {})}, "unlock", "answered 403"),
        ({"/api/v1/mcp-guard/status": (200, {"is_locked": True, "lock_reason": "panic"})}, "guard", "panic"),
    ],
)
def test_a_remote_backend_that_is_not_well(home: Path, answers: dict[str, Reply], area: str, word: str) -> None:
    with answering({**HEALTHY, **answers}) as (url, _):
        line = remote(url)[area]
    assert line.status == "fail"
    assert word in line.text
    assert line.next


def test_a_remote_backend_whose_clock_is_elsewhere(home: Path) -> None:
    with answering(HEALTHY, date=time.time() - 3600) as (url, _):
        assert remote(url)["clock"].text.startswith("60 minutes apart")


def test_a_remote_backend_that_is_not_there_or_wrongly_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "does not answer" in remote(f"http://127.0.0.1:{port}")["backend"].text
    assert remote("localhost:8765")["backend"].status == "fail"
    assert "ZORIVEST_API_KEY is not set" in remote(f"http://127.0.0.1:{port}", {})["key"].text


# --- clients


def cursor(home: Path, entry: Any) -> None:
    path = Path(locate("cursor", os.environ))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": {"zorivest": entry}}))


def client_lines(patience: float = 20.0) -> list[Line]:
    return [line for line in clients.set_up(os.environ, patience=patience) if line.area == "client cursor"]


def script(home: Path, body: str) -> str:
    path = home / "zorivest-rpc"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_an_entry_that_answers_is_well_and_starts_no_backend(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cursor(home, {"command": sys.executable, "args": ["-m", "zorivest_rpc", "--toolsets", "core"]})
    assert [line.status for line in client_lines()] == ["ok"]
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("body", "patience", "word"),
    [
        ("import time; time.sleep(60)", 0.3, "did not answer within 0.3 s"),
        ("raise SystemExit(3)", 20.0, "exit code 3"),
        ("print('hello')", 20.0, "ended without an answer"),
    ],
)
def test_an_entry_that_does_not_answer_is_named(home: Path, body: str, patience: float, word: str) -> None:
    cursor(home, {"command": script(home, body), "args": []})
    line = client_lines(patience)[0]
    assert line.status == "fail"
    assert word in line.text
    assert "zorivest-rpc install cursor" in line.next


@pytest.mark.parametrize(
    ("entry", "status", "word"),
    [
        ({"command": "/gone/zorivest-rpc", "args": []}, "fail", "which is not there"),
        ({"command": "node", "args": ["server.js"]}, "fail", "starts another program"),
        ("nonsense", "fail", "starts another program"),
        ({"command": "uvx", "args": ["zorivest-rpc"]}, "ok", "through uvx; not tried"),
        ({"url": "http://127.0.0.1:1/mcp"}, "fail", "nothing answers"),
        ({"url": "nowhere"}, "fail", "an address that is none"),
    ],
)
def test_an_entry_that_cannot_work_is_named(home: Path, entry: Any, status: str, word: str) -> None:
    cursor(home, entry)
    line = client_lines()[0]
    assert (line.status, word in line.text) == (status, True), line


def test_an_entry_for_a_server_that_runs_is_well(home: Path) -> None:
    with answering({"/health": (200, {"status": "ok"})}) as (url, _):
        cursor(home, {"url": url + "/mcp?token=x"})
        line = client_lines()[0]
    assert (line.status, "token" in line.text) == ("ok", False)


def answering_program(home: Path, version: str) -> str:
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"version": version}}}
    return script(home, f"print({json.dumps(json.dumps(reply))})")


def test_more_tools_than_the_client_takes_is_a_warning(home: Path) -> None:
    program = answering_program(home, __version__)
    cursor(home, {"command": program, "args": ["--toolsets", "all"]})
    lines = client_lines()
    assert [line.status for line in lines] == ["ok", "warn"]
    assert "Cursor takes 40" in lines[1].text
    cursor(home, {"command": program, "args": ["--toolset", "all"]})
    assert [line.status for line in client_lines()] == ["ok", "fail"]


def test_another_version_and_a_switched_off_entry_are_warnings(home: Path) -> None:
    cursor(home, {"command": answering_program(home, "0.0.1"), "args": [], "disabled": True})
    assert [line.status for line in client_lines()] == ["warn", "ok", "warn"]


def test_an_entry_that_loses_the_variable_that_names_the_journal_is_a_warning(home: Path) -> None:
    cursor(home, {"command": answering_program(home, __version__), "args": []})
    lines = [line for line in clients.set_up(os.environ, "/srv/journal") if line.area == "client cursor"]
    assert lines[-1].status == "warn"
    assert "and not the one in /srv/journal" in lines[-1].text
    cursor(home, {"command": answering_program(home, __version__), "args": ["--data-dir", "/srv/journal"]})
    assert {line.status for line in clients.set_up(os.environ, "/srv/journal")} == {"ok"}


def test_comments_in_a_file_that_its_client_reads_as_plain_json_are_a_warning(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {} /* none */}')
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {} /* none */}')
    lines = list(clients.set_up(os.environ))
    assert [line.area for line in lines if "plain JSON" in line.text] == ["client claude-code"]


def test_a_malformed_client_file_is_named_with_its_place(home: Path) -> None:
    cursor(home, {})
    path = Path(locate("cursor", os.environ))
    path.write_text('{"mcpServers": }')
    line = client_lines()[0]
    assert (line.status, "line 1, column 16" in line.text) == ("fail", True)


# --- secrets


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_planted_secrets_are_never_said(
    run: Run, quick: None, data: Path, home: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    planted = {name: f"zrv_sk_planted{name}{'x' * 20}" for name in ("env", "stored", "entry")}
    planted |= {
        name: f"planted-{name}-0123456789" for name in ("serve", "header", "user", "config", "variable", "args")
    }
    for name, secret in (("api.key", planted["stored"]), ("serve.key", planted["serve"])):
        (data / name).write_text(secret + "\n")
        (data / name).chmod(0o644)
    (data / "bootstrap.json").write_text(json.dumps({"cipher": "none", "keys": []}))
    monkeypatch.setenv("ZORIVEST_API_KEY", planted["env"])
    variables = {"ZORIVEST_API_KEY": planted["entry"], "OTHER": planted["variable"]}
    cursor(home, {"command": "/gone/zorivest-rpc", "args": [planted["args"]], "env": variables})
    windsurf = Path(locate("windsurf", os.environ))
    windsurf.parent.mkdir(parents=True)
    url = f"http://{planted['user']}:pw@127.0.0.1:1/mcp?key={planted['config']}"
    headers = {"Authorization": f"Bearer {planted['header']}"}
    windsurf.write_text(json.dumps({"mcpServers": {"zorivest": {"serverUrl": url, "headers": headers}}}))
    zed = Path(locate("zed", os.environ))
    zed.parent.mkdir(parents=True)
    zed.write_text(f'{{"context_servers": {{"zorivest": {{"env": {{"K": "{planted["config"]}" "x"')
    said = ""
    for words in ([], ["--api-url", f"http://{planted['user']}:pw@localhost:1"], ["--toolsets", planted["env"]]):
        ran = run("doctor", *words, *form)
        assert ran.code == 1
        said += ran.out + ran.err
    assert [name for name, secret in planted.items() if secret in said] == []


def test_a_secret_that_only_another_program_knows_is_not_repeated(
    run: Run, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_API_KEY", "a-key-of-another-form")
    reason = "zrv_sk_foreign Bearer abcdef http://me:pw@host a-key-of-another-form"
    with answering({**HEALTHY, "/api/v1/mcp-guard/status": (200, {"is_locked": True, "lock_reason": reason[:60]})}) as (
        url,
        _,
    ):
        ran = run("doctor", "--api-url", url, "--json")
    assert failing(ran)["guard"]["text"].startswith("locked (… Bearer … http://…@host ")
    assert "a-key-of-another-form" not in ran.out


def test_a_url_is_shown_without_what_may_be_secret_in_it() -> None:
    assert shown("http://me:pw@host:1/mcp?token=x#y") == "http://host:1/mcp"
    assert shown("http://[") == "the URL"


def test_a_trial_gets_no_key_and_no_backend(home: Path) -> None:
    said = """import json, os
facts = [os.environ.get("ZORIVEST_API_URL"), "ZORIVEST_API_KEY" in os.environ]
print(json.dumps({"result": {"serverInfo": {"version": facts}}}))"""
    trial = clients.try_out((script(home, said),), {**os.environ, "ZORIVEST_API_KEY": KEY}, 20.0)
    assert trial.version == "['http://127.0.0.1:9', False]"


def test_the_command_of_this_installation_can_be_tried_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert clients.try_out(own_command(), os.environ, 20.0).version is not None


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (
            ("--toolsets", "all"),
            "warn",
            f"{ALL} tools are listed at start, and an unknown client works best with at most 40",
        ),
        (("--toolsets", "all", "--as", "cursor"), "warn", "Cursor works best with at most 40"),
        (("--as=cursor",), "ok", f"{DEFAULT} tools are listed at start for Cursor; its limit: 40"),
        (("--as", "claude-code"), "ok", f"{ALL} tools are listed at start for Claude Code; its limit: none known"),
    ],
)
def test_a_list_is_held_against_the_limit_of_the_client(
    run: Run, quick: None, words: tuple[str, ...], status: str, told: str
) -> None:
    checks = json.loads(run("doctor", "--json", *words).out)["checks"]
    (line,) = [line for line in checks if line["area"] == "list"]
    assert line["status"] == status
    assert told in line["text"]


def test_a_client_that_does_not_exist_is_misuse(run: Run, quick: None) -> None:
    done = run("doctor", "--as", "curser")
    assert done.code == 2
    assert "did you mean cursor?" in done.err
