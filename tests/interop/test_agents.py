"""What real agents sent, sent again: the server must answer each as it did when the agent itself was there.

The agents are large downloads, so they run in `make agents` alone; their transcripts are kept by it and replayed here,
against the installed command over stdio, with a journal of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.agents.transcript import HERE, TOKEN, gist, read
from zorivest_rpc.embedded.locate import find, find_or_start

Json = Any
NAMES = sorted(path.stem for path in HERE.glob("*.jsonl"))
PATIENCE = 60.0  # a bound for a machine that is busy with other things
OPTIONS = {"claude": ("--toolsets", "trade-analytics")}
UNASKED = ("notifications/progress", "notifications/message")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        find_or_start(directory)
        yield directory
    located = find(directory)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


class Replay:
    """The client's side of a transcript, with one journal's own execution id and tokens in it."""

    def __init__(self, name: str, child: asyncio.subprocess.Process) -> None:
        self._name = name
        self._child = child
        self._methods: dict[Json, str] = {}
        self._questions: dict[str, Json] = {}
        self._token = ""
        self.waiting: list[Json] = []

    def send(self, message: Json) -> None:
        if "method" in message and "id" in message:
            self._methods[message["id"]] = message["method"]
        elif "method" not in message:
            message = {**message, "id": self._questions[message["id"]]}
        text = json.dumps(message).replace("agent-1", f"agent-{self._name}").replace(TOKEN, self._token)
        assert self._child.stdin is not None
        self._child.stdin.write(text.encode() + b"\n")

    async def expect(self, said: Json) -> None:
        """Read until the server has said this; what it says in between is kept for the lines that follow."""
        async with asyncio.timeout(PATIENCE):
            while said not in self.waiting:
                assert await self._receive(), f"the server ended before it said {said}; it had said {self.waiting}"
        self.waiting.remove(said)

    async def _receive(self) -> bool:
        assert self._child.stdout is not None
        line = await self._child.stdout.readline()
        if not line:
            return False
        message = json.loads(line)
        if message.get("method") in UNASKED:
            return True
        found = re.search(r"ctk_[\w-]+", line.decode())
        self._token = found[0] if found else self._token
        method = self._methods.get(message.get("id"))
        if method == "subscriptions/listen" and "method" not in message:
            return True  # answered when the client goes, which an agent does not wait for
        said = gist(message, method)
        if "method" in message and "id" in message:
            said["id"] = f"question-{len(self._questions) + 1}"
            self._questions[said["id"]] = message["id"]
        self.waiting.append(said)
        return True

    async def drain(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        while await self._receive():
            pass


async def replay(name: str, lines: list[Json], data: Path, *options: str) -> list[Json]:
    """What the server said beyond the transcript."""
    command = Path(sys.executable).with_name("zorivest-rpc")
    child = await asyncio.create_subprocess_exec(
        *(str(command), "stdio", "--data-dir", str(data), *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "ZORIVEST_KEYRING": "off"},
        cwd=data,
        limit=64 * 1024 * 1024,
    )
    replaying = Replay(name, child)
    try:
        for line in lines:
            if "client" in line:
                replaying.send(line["client"])
            else:
                await replaying.expect(line["server"])
        await replaying.drain()
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()
    return replaying.waiting


def test_there_is_a_transcript_of_every_agent() -> None:
    assert set(NAMES) == {"claude-code", "claude-code-modern", "codex", "gemini-cli", "opencode"}


@pytest.mark.parametrize("name", NAMES)
async def test_an_agent_is_answered_as_it_was(name: str, data: Path) -> None:
    _, lines = read(name)
    assert await replay(name, lines, data, *OPTIONS.get(name.partition("-")[0], ())) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_transcript_tells_nothing_of_the_machine_it_was_made_on(name: str) -> None:
    text = (HERE / f"{name}.jsonl").read_text()
    assert not re.search(
        r"/(?:tmp|work|home|root|Users|var)/|ctk_|zrv_sk_|[0-9a-f]{8}-[0-9a-f]{4}-|20\d\d-\d\d-\d\dT", text
    )


def said(name: str, key: str) -> list[Json]:
    """The server's lines that have this key."""
    return [line["server"][key] for line in read(name)[1] if key in line.get("server", {})]


def calls(name: str, tool: str) -> list[Json]:
    sent = [line["client"] for line in read(name)[1] if "client" in line]
    return [message for message in sent if message.get("params", {}).get("name") == tool]


def test_codex_was_asked_by_form_declined_and_then_agreed() -> None:
    assert said("codex", "fields") == [["instrument", "quantity"]] * 2
    assert "confirmation_declined" in said("codex", "refused")
    replies = [line["client"]["result"] for line in read("codex")[1] if "result" in line.get("client", {})]
    assert [reply["action"] for reply in replies] == ["decline", "accept"]
    assert len(calls("codex", "create_trade")) == 2


@pytest.mark.parametrize("name", ["claude-code", "claude-code-modern"])
def test_claude_code_asked_its_user_itself_and_only_the_approved_call_came(name: str) -> None:
    assert len(calls(name, "create_trade")) == 1
    assert said(name, "fields") == []
    assert said(name, "refused") == []
    assert all("create_trade" in marked for marked in said(name, "marked"))
    changes = name == "claude-code"  # in 2026-07-28 no list changes because of another request
    assert ("notifications/tools/list_changed" in said(name, "method")) is changes


@pytest.mark.parametrize("name", ["gemini-cli", "opencode"])
def test_an_agent_without_forms_needed_a_token_and_learnt_of_the_new_list(name: str) -> None:
    assert "confirmation_missing" in said(name, "refused")
    assert len(calls(name, "get_confirmation_token")) == 1
    assert len(calls(name, "create_trade")) == 2
    assert "notifications/tools/list_changed" in said(name, "method")
    assert any("from your next turn, or now with call_tool" in message for message in said(name, "message"))
    before, *_, after = said(name, "lists")
    assert ("get_tax_lots" in before, "get_tax_lots" in after) == (False, True)
    assert len(calls(name, "get_tax_lots")) == 1
