"""`stop` and `unlock` of a server with several clients: whose guards they lock, and what a backend of them is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Run


class Asked(NamedTuple):
    path: str
    client: str | None
    authorization: str | None


class Desks:
    """Backends behind one port, which tell clients apart by the header `client` alone."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.locked: set[str | None] = set()
        self.elsewhere: str | None = None  # where every request is redirected to
        desks = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                status, answer = desks.answer(
                    Asked(self.path, self.headers.get("client"), self.headers.get("Authorization")), body
                )
                data = json.dumps(answer).encode()
                self.send_response(status)
                if desks.elsewhere is not None:
                    self.send_header("Location", desks.elsewhere + self.path)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, format: str, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, asked: Asked, body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(asked)
        if self.elsewhere is not None:
            return 302, {}
        if asked.path == "/api/v1/auth/unlock":
            return 200, {"session_token": "tok-" + body["api_key"], "role": "admin"}
        if asked.path == "/api/v1/health":
            return 200, {"status": "ok", "version": "2.1", "database": {"unlocked": True}}
        if asked.path == "/api/v1/mcp-guard/lock":
            self.locked.add(asked.client)
            status = {"is_locked": True, "locked_by": "person", "is_saved": True, "lock_reason": body["reason"]}
            return 200, {**status, "locked_at": "2026-01-01T00:00:00Z"}
        return 200, {"is_locked": asked.client in self.locked, "is_enabled": True, "locked_by": "person"}


@pytest.fixture
def desks() -> Iterator[Desks]:
    made = Desks()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def data(desks: Desks, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tables = {
        "acme": {"apiBaseUrl": desks.url, "apiKeyEnv": "ACME_KEY", "clientHeader": "ACME"},
        "beta": {"apiBaseUrl": desks.url, "authorization": "Basic planted", "clientHeader": "BETA"},
        "gone": {"apiBaseUrl": desks.url, "apiKeyEnv": "GONE_KEY", "enabled": False},
    }
    monkeypatch.setenv("CLIENTS_CONFIG", json.dumps(tables))
    monkeypatch.setenv("ACME_KEY", "zrv_sk_acme")
    monkeypatch.setenv("ZORIVEST_DATA_DIR", str(home / "data"))
    return home / "data"


def test_a_stop_without_a_name_stops_every_client(run: Run, desks: Desks, data: Path) -> None:
    ran = run("stop", "--reason", "drill")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "Stopped: every guarded tool is refused until you run zorivest-rpc unlock --tenant ID for each.",
        "acme: locked by a person since 2026-01-01T00:00:00Z, reason: drill",
        "beta: locked by a person since 2026-01-01T00:00:00Z, reason: drill",
    ]
    assert desks.locked == {"ACME", "BETA"}
    assert not data.exists(), "no journal is made that no client has"


def test_one_that_cannot_be_stopped_is_told_and_the_others_are(
    run: Run, desks: Desks, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_KEY")
    ran = run("stop", "--json")
    assert ran.code == 1
    assert ran.err == 'zorivest-rpc stop: client "acme" is NOT stopped: no key at hand; set ACME_KEY\n'
    told = json.loads(ran.out)
    assert told["is_locked"] is False
    assert [(each["id"], each["is_locked"]) for each in told["clients"]] == [("acme", False), ("beta", True)]
    assert desks.locked == {"BETA"}


@pytest.mark.parametrize(
    ("words", "variable"),
    [(("--tenant", "beta"), False), (("--tenant", "beta"), True), ((), True)],
)
def test_the_address_of_a_server_of_one_journal_is_none_of_the_clients(
    run: Run, desks: Desks, data: Path, words: tuple[str, ...], variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("ZORIVEST_API_URL", "http://127.0.0.1:9")
    assert run("stop", *words).code == 0
    assert desks.locked == ({"BETA"} if words else {"ACME", "BETA"})
    assert {each.client for each in desks.asked} == desks.locked, "each request says whose it is"


def test_another_backend_can_still_be_named(run: Run, desks: Desks, data: Path) -> None:
    ran = run("stop", "--api-url", "http://127.0.0.1:9")
    assert (ran.code, desks.asked) == (1, [])
    assert "no key at hand; set ZORIVEST_API_KEY" in ran.err


@pytest.mark.parametrize(
    ("id", "told"),
    [("acme", "the key opens {} as admin"), ("beta", "{} takes the fixed Authorization")],
)
def test_the_doctor_shows_a_backend_the_client_s_own_credential(
    run: Run, desks: Desks, data: Path, id: str, told: str
) -> None:
    ran = run("doctor", "--tenant", id, "--json")
    lines = {line["area"]: line for line in json.loads(ran.out)["checks"]}
    assert "key" not in lines
    assert lines["unlock"]["text"] == told.format(desks.url + "/api/v1")
    assert lines["guard"]["status"] == "ok"
    assert {each.client for each in desks.asked} == {id.upper()}
    assert "planted" not in ran.out + ran.err


def test_the_doctor_names_the_variable_of_the_client(
    run: Run, desks: Desks, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACME_KEY")
    lines = {line["area"]: line for line in json.loads(run("doctor", "--tenant", "acme", "--json").out)["checks"]}
    assert lines["key"]["text"].startswith("ACME_KEY is not set, ")
    areas = [line["area"] for line in json.loads(run("doctor", "--json").out)["checks"]]
    assert "backups" not in areas, "those are of a journal that no client has"


@pytest.mark.parametrize("id", ["acme", "beta"])
def test_no_redirect_takes_a_credential_elsewhere(run: Run, desks: Desks, data: Path, id: str) -> None:
    other = Desks()
    thread = threading.Thread(target=other.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        desks.elsewhere = other.url
        ran = run("stop", "--tenant", id)
    finally:
        other.server.shutdown()
        thread.join()
        other.server.server_close()
    assert (ran.code, ran.err) == (1, "zorivest-rpc stop: the backend answered 302\n")
    assert len(desks.asked) == 1
    assert other.asked == []


@pytest.mark.parametrize(
    "words",
    [
        ("unlock",),
        ("keys", "list"),
        ("backup", "create"),
        ("backup", "list"),
        ("demo", "load"),
        ("approve",),
        ("connect",),
    ],
)
def test_what_concerns_one_journal_asks_which(run: Run, desks: Desks, data: Path, words: tuple[str, ...]) -> None:
    told = "zorivest-rpc: --tenant: there are several clients; name one of acme, beta, gone, or another journal with "
    assert run(*words) == (2, "", told + "--data-dir\n")
    assert desks.asked == []
    assert not data.exists()


def test_a_directory_that_is_named_is_meant(run: Run, data: Path, home: Path) -> None:
    assert run("backup", "list", "--data-dir", str(home / "elsewhere")) == (0, "no backups yet\n", "")
