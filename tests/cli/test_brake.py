"""`stop` and `unlock` through a backend that is named: what is sent, what is told, and what counts as done."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from zorivest_rpc.cli import stop, unlock
from zorivest_rpc.cli.brake import describe_lock

KEY = "zrv_sk_" + "k" * 32
SINCE = "2026-03-02T08:00:00+00:00"
LOCKED = {"is_locked": True, "locked_by": "person", "locked_at": SINCE, "lock_reason": "enough", "is_saved": True}
OPEN = {"is_locked": False, "locked_by": None, "locked_at": None, "lock_reason": None, "is_saved": True}


class Backend:
    """Answers with what the test put there, and keeps what it was sent."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[int, Any]]] = {"/auth/unlock": [(200, {"session_token": "tok_1"})]}
        self.seen: list[tuple[str, str, Any, str | None]] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                path = self.path.removeprefix("/api/v1")
                backend.seen.append((self.command, path, body, self.headers.get("Authorization")))
                waiting = backend.answers[path]
                status, answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def sent(self, path: str) -> list[Any]:
        return [body for _, where, body, _ in self.seen if where == path]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join(20)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    monkeypatch.setenv("ZORIVEST_API_KEY", KEY)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # the key is for the backend alone
    backend = Backend()
    yield backend
    backend.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# --- stop


def test_a_stop_is_a_persons_and_says_why(backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.answers["/mcp-guard/lock"] = [(200, LOCKED)]
    assert stop.run(["--api-url", backend.url, "--reason", " enough "]) == 0
    assert backend.seen == [
        ("POST", "/auth/unlock", {"api_key": KEY}, None),
        ("POST", "/mcp-guard/lock", {"reason": "enough", "by": "person"}, "Bearer tok_1"),
    ]
    said = capsys.readouterr()
    assert f"locked by a person since {SINCE}, reason: enough." in said.out
    assert said.err == ""


def test_a_stop_for_programs_prints_the_state(backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.answers["/mcp-guard/lock"] = [(201, LOCKED | {"is_saved": False})]
    assert stop.run(["--api-url", backend.url, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == LOCKED | {"is_saved": False}
    assert "in memory alone" in said.err
    assert backend.sent("/mcp-guard/lock") == [{"reason": "manual", "by": "person"}]


@pytest.mark.parametrize("status", [400, 422])
def test_a_backend_that_does_not_know_who_locks_is_stopped_all_the_same(backend: Backend, status: int) -> None:
    backend.answers["/mcp-guard/lock"] = [(status, {"detail": "unknown field"}), (200, {"is_locked": True})]
    assert stop.run(["--api-url", backend.url]) == 0
    assert backend.sent("/mcp-guard/lock") == [{"reason": "manual", "by": "person"}, {"reason": "manual"}]


@pytest.mark.parametrize(
    ("status", "answer", "told"),
    [
        (500, {"detail": "the database is on fire"}, "the database is on fire"),
        (500, {"detail": {"errors": []}}, "the backend answered 500"),
        (502, b"<h1>bad gateway</h1>", "the backend answered 502"),
        (403, ["no"], "the backend answered 403"),
        (300, LOCKED, "the backend answered 300"),
        (200, OPEN, "NOTHING is stopped"),
        (200, {}, "NOTHING is stopped"),
        (200, {"is_locked": "true"}, "NOTHING is stopped"),
        (200, b"no JSON", "NOTHING is stopped"),
    ],
)
def test_what_is_not_known_to_be_a_stop_is_told_as_none(
    backend: Backend, capsys: pytest.CaptureFixture[str], status: int, answer: Any, told: str
) -> None:
    backend.answers["/mcp-guard/lock"] = [(status, answer)]
    assert stop.run(["--api-url", backend.url]) == 1
    said = capsys.readouterr()
    assert (told in said.err, said.out) == (True, "")
    assert len(backend.sent("/mcp-guard/lock")) == 1


@pytest.mark.parametrize(
    ("reason", "code"), [("x", 0), ("x" * 100, 0), (" " + "x" * 100 + " ", 0), ("x" * 101, 2), ("  ", 2)]
)
def test_a_reason_has_1_to_100_characters(backend: Backend, reason: str, code: int) -> None:
    backend.answers["/mcp-guard/lock"] = [(200, LOCKED)]
    if code:
        with pytest.raises(SystemExit) as misused:
            stop.run(["--api-url", backend.url, "--reason", reason])
        assert (misused.value.code, backend.seen) == (code, [])
    else:
        assert stop.run(["--api-url", backend.url, "--reason", reason]) == 0
        assert backend.sent("/mcp-guard/lock")[0]["reason"] == reason.strip()


def test_without_a_key_nothing_is_asked(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ZORIVEST_API_KEY")
    assert stop.run(["--api-url", backend.url]) == 1
    assert ("set ZORIVEST_API_KEY" in capsys.readouterr().err, backend.seen) == (True, [])


# --- unlock


def type_word(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(word + "\n"))


@pytest.mark.parametrize("word", ["unlock", " UNLOCK "])
def test_the_lock_that_was_shown_is_the_one_that_is_released(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    backend.answers |= {"/mcp-guard/status": [(200, LOCKED)], "/mcp-guard/unlock": [(200, OPEN)]}
    type_word(monkeypatch, word)
    assert unlock.run(["--api-url", backend.url]) == 0
    assert backend.sent("/mcp-guard/unlock") == [{"by": "person", "locked_at": SINCE}]
    said = capsys.readouterr()
    assert f"The guard is locked by a person since {SINCE}, reason: enough." in said.err
    assert 'Type "unlock"' in said.err
    assert "Unlocked" in said.out


def test_the_question_is_on_the_terminal_before_the_answer_is_awaited(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Screen(io.StringIO):
        def flush(self) -> None:
            shown.append(self.getvalue())

    class Person(Terminal):
        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
            assert 'Type "unlock"' in shown[-1]
            return "unlock\n"

    backend.answers |= {"/mcp-guard/status": [(200, LOCKED)], "/mcp-guard/unlock": [(200, OPEN)]}
    monkeypatch.setattr(sys, "stderr", Screen())
    monkeypatch.setattr(sys, "stdin", Person())
    assert unlock.run(["--api-url", backend.url]) == 0


@pytest.mark.parametrize("word", ["", "no", "unlock it", "yes"])
def test_another_word_leaves_it_locked(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    backend.answers["/mcp-guard/status"] = [(200, LOCKED)]
    type_word(monkeypatch, word)
    assert unlock.run(["--api-url", backend.url]) == 1
    assert ("Still locked." in capsys.readouterr().err, backend.sent("/mcp-guard/unlock")) == (True, [])


def test_no_program_types_the_word(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.answers["/mcp-guard/status"] = [(200, LOCKED)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("unlock\n"))
    assert unlock.run(["--api-url", backend.url]) == 1
    assert ("a person at a terminal" in capsys.readouterr().err, backend.sent("/mcp-guard/unlock")) == (True, [])


def test_a_guard_that_was_locked_again_is_told_as_locked(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.answers |= {"/mcp-guard/status": [(200, LOCKED)], "/mcp-guard/unlock": [(200, LOCKED)]}
    type_word(monkeypatch, "unlock")
    assert unlock.run(["--api-url", backend.url]) == 1
    said = capsys.readouterr()
    assert ("locked again meanwhile" in said.err, said.out) == (True, "")


def test_an_older_backend_is_unlocked_without_what_it_does_not_know(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.answers |= {"/mcp-guard/status": [(200, LOCKED)], "/mcp-guard/unlock": [(422, {}), (200, OPEN)]}
    type_word(monkeypatch, "unlock")
    assert unlock.run(["--api-url", backend.url]) == 0
    assert backend.sent("/mcp-guard/unlock") == [{"by": "person", "locked_at": SINCE}, {}]


def test_an_open_guard_is_told_as_open(backend: Backend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.answers["/mcp-guard/status"] = [(200, OPEN)]
    assert unlock.run(["--api-url", backend.url]) == 0
    assert "there is nothing to unlock" in capsys.readouterr().out


# --- the words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"locked_by": "person", "locked_at": "t", "lock_reason": "r"}, "locked by a person since t, reason: r"),
        ({"locked_by": "tool", "locked_at": "t", "lock_reason": "r"}, "locked by a tool since t, reason: r"),
        ({"locked_by": "rate", "locked_at": "t", "lock_reason": "r"}, "locked by the rate limits since t, reason: r"),
        ({"locked_by": "x", "locked_at": "t"}, "locked by an unknown party since t, reason: none given"),
        ({}, "locked by an unknown party since an unknown time, reason: none given"),
        ({"lock_reason": "a\x1b[2Kb\nc"}, "locked by an unknown party since an unknown time, reason: a?[2Kb?c"),
    ],
)
def test_a_lock_is_described_by_who_when_and_why(status: dict[str, Any], words: str) -> None:
    assert describe_lock(status) == words
