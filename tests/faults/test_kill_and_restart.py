"""`kill -9`, then the same command on the same directory: clients go on with the ids they have."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.transports.serve_child import PROGRAM, Serve, lines_of, serve


def kill(started: Serve) -> None:
    started.child.process.kill()
    assert started.child.ended() == -9


def names(started: Serve, session: str) -> set[str]:
    return {tool["name"] for tool in started.ask(session, "tools/list")["result"]["tools"]}


def logged(started: Serve, session: str, level: str) -> bool:
    """Whether a message of this level is sent to the client."""
    message = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "tools/call",
        "params": {"name": "log", "arguments": {"message": "m", "level": level}},
    }
    response, connection = started.request("POST", message=message, Mcp_Session_Id=session)
    with contextlib.closing(connection), response:
        return b"notifications/message" in response.read()


@pytest.mark.parametrize("writer", ["direct", "plain"])
def test_a_session_goes_on_after_kill_9_as_it_was(tmp_path: Path, writer: str) -> None:
    options = ("--no-auth", "--http-writer", writer)
    with serve(tmp_path, *options) as first:
        changed, untouched, ended = (first.ready().open() if n == 0 else first.open() for n in range(3))
        first.ask(changed, "logging/setLevel", level="error")
        first.ask(changed, "tools/call", name="toggle_extra", arguments={})
        first.ask(changed, "resources/subscribe", uri="showcase://readme")
        response, connection = first.request("DELETE", Mcp_Session_Id=ended)
        with contextlib.closing(connection), response:
            assert response.status == 204
        kill(first)
    with serve(tmp_path, *options) as second:
        second.ready()
        assert "extra" in names(second, changed)
        assert "extra" not in names(second, untouched)
        assert not logged(second, changed, "warning")
        assert logged(second, changed, "error")
        assert logged(second, untouched, "warning")
        assert second.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id=ended)[0] == 404
        second.ask(changed, "tools/call", name="toggle_extra", arguments={})
        kill(second)
    with serve(tmp_path, *options) as third:
        assert "extra" not in names(third.ready(), changed)
        for name in ("sessions.journal", "sessions.journal.copy"):
            assert "showcase://readme" in (tmp_path / name).read_text()


def test_a_new_key_in_the_directory_ends_all_sessions(tmp_path: Path) -> None:
    with serve(tmp_path, "--no-auth") as first:
        session = first.ready().open()
        kill(first)
    (tmp_path / "session.key").unlink()
    with serve(tmp_path, "--no-auth") as second:
        second.ready()
        assert second.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id=session)[0] == 404


def test_a_journal_that_a_crash_cut_short_is_no_obstacle(tmp_path: Path) -> None:
    with serve(tmp_path, "--no-auth") as first:
        session = first.ready().open()
        first.ask(session, "logging/setLevel", level="error")
        kill(first)
    with (tmp_path / "sessions.journal").open("ab") as file:
        file.write(b'["cut off in the midd')
    with serve(tmp_path, "--no-auth") as second:
        second.ready()
        assert not logged(second, session, "warning")


def test_a_stream_that_was_open_at_the_kill_is_answered_for_its_request(tmp_path: Path) -> None:
    def call(id: str) -> dict[str, Any]:
        params = {
            "name": "stream",
            "arguments": {"file": str(tmp_path / "never")},
            "_meta": {"progressToken": "t"},
        }
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    with serve(tmp_path / "data", "--no-auth", program=PROGRAM) as first:
        session = first.ready().open()
        response, connection = first.request("POST", message=call("job-1"), Mcp_Session_Id=session)
        rows = lines_of(response)
        last = next(row[4:].decode() for row in rows if row.startswith(b"id: "))
        first.child.await_error_line("running stream")
        kill(first)
        connection.close()
    with serve(tmp_path / "data", "--no-auth", program=PROGRAM) as second:
        second.ready()
        response, connection = second.request(
            "GET", Accept="text/event-stream", Mcp_Session_Id=session, Last_Event_ID=last
        )
        with contextlib.closing(connection), response:
            (data,) = [row for row in lines_of(response) if row.startswith(b"data: ")]
        answer = json.loads(data[6:])
        assert answer["id"] == "job-1"
        assert answer["error"]["code"] == -32603
