"""Conversations on disk, replayed over every transport that can carry them.

A file is JSON lines: a note on top, then what is sent (`send`, or `raw` for bytes that are no JSON) and behind it every
frame that it brings back (`expect`). What differs from run to run is named: `<sealed-1>` for a token of the server,
`<question-1>` for the id of its request, `<time>`; a name in what is sent stands for what was seen under it.

    python -m tests.mcp.protocol.transcripts --write     writes the expected lines anew, from a conversation in memory
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from tests.connect import LEGACY_KINDS, MODERN_KINDS, Client, Host
from tests.places import ROOT

__all__ = ["Transcript", "replay", "transcripts"]

Json = Any
FOLDER: Final = ROOT / "tests" / "golden" / "transcripts"
_SEALED: Final = re.compile(r"[0-9a-f]{60,}\Z")
_QUESTION: Final = re.compile(r"zrv-[0-9a-f]+-[0-9]+\Z")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


class Step:
    def __init__(self, sent: dict[str, Json]) -> None:
        self.sent = sent
        self.expected: list[Json] = []


class Transcript:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.steps: list[Step] = []
        for line in lines:
            if "expect" in line:
                self.steps[-1].expected.append(line["expect"])
            else:
                self.steps.append(Step(line))

    @property
    def kinds(self) -> tuple[str, ...]:
        every = MODERN_KINDS if self.head["revision"] == "2026-07-28" else LEGACY_KINDS
        return tuple(kind for kind in every if kind not in self.head.get("not over", ()))

    def write(self) -> None:
        lines = [self.head]
        for step in self.steps:
            lines.append(step.sent)
            lines += [{"expect": frame} for frame in step.expected]
        self.path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


class Names:
    """What was seen, by the name it has in the file."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def hide(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self.hide(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.hide(item) for item in value]
        if not isinstance(value, str):
            return value
        if _TIME.match(value):
            return "<time>"
        kind = "sealed" if _SEALED.match(value) else "question" if _QUESTION.match(value) else None
        return value if kind is None else self._name(kind, value)

    def _name(self, kind: str, value: str) -> str:
        if value not in self._names:
            number = sum(name.startswith(f"<{kind}-") for name in self._values) + 1
            self._names[value] = f"<{kind}-{number}>"
            self._values[self._names[value]] = value
        return self._names[value]

    def show(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self.show(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.show(item) for item in value]
        return self._values.get(value, value) if isinstance(value, str) else value


async def replay(transcript: Transcript, kind: str) -> None:
    """Raises AssertionError at the first step that brings back something else."""
    host = Host(kind)
    try:
        client = await host(transcript.head["revision"], offer=transcript.head["offer"], opened=False)
        names = Names()
        taken = 0
        for number, step in enumerate(transcript.steps, 2):
            await _send(client, step, names)
            wanted = taken + len(step.expected)
            await client.until(lambda wanted=wanted: True if len(client.frames) >= wanted else None)  # type: ignore[misc]
            came = [names.hide(json.loads(frame)) for frame in client.frames[taken:wanted]]
            assert _sorted(came) == _sorted(step.expected), f"{transcript.path.name}, step {number} over {kind}"
            taken = wanted
        await client.settle()
        assert len(client.frames) == taken + 1, f"{transcript.path.name}: more came than expected"
    finally:
        await host.close()


def _sorted(frames: list[Json]) -> list[str]:
    """Over HTTP two streams may overtake each other; within one step the order is not compared."""
    return sorted(json.dumps(frame, sort_keys=True) for frame in frames)


async def _send(client: Client, step: Step, names: Names) -> None:
    if "raw" in step.sent:
        await client.send(step.sent["raw"].encode("latin-1"))
        return
    message = names.show(step.sent["send"])
    await client.send(message)
    if isinstance(message, dict) and message.get("method") == "notifications/initialized":
        await client.wire.opened(client.revision)


async def record(transcript: Transcript) -> None:
    host = Host("memory-modern" if transcript.head["revision"] == "2026-07-28" else "memory")
    try:
        client = await host(transcript.head["revision"], offer=transcript.head["offer"], opened=False)
        names = Names()
        for step in transcript.steps:
            before = len(client.frames)
            await _send(client, step, names)
            for _ in range(50):
                await asyncio.sleep(0)  # in memory nothing takes longer than a few turns of the loop
            step.expected = [names.hide(json.loads(frame)) for frame in client.frames[before:]]
    finally:
        await host.close()


def transcripts() -> list[Transcript]:
    return [Transcript(path) for path in sorted(FOLDER.glob("*.jsonl"))]


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print(__doc__)
        return 2
    for transcript in transcripts():
        asyncio.run(record(transcript))
        transcript.write()
        print(f"{transcript.path.name}: {len(transcript.steps)} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
