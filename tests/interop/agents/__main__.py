"""`make agents`: every real agent holds its conversation; what was seen is checked, and what was said is kept.

`python -m tests.interop.agents [NAME…]` runs the named agents alone. The diff of the transcripts is the review."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.interop.agents.converse import Seen, converse
from tests.interop.agents.drive import AGENTS, VERSIONS
from tests.interop.agents.transcript import distil, save

ASKED = {  # who asked the user before create_trade when the user declined, and again when the user agreed
    "codex": ("form", "form"),
    "claude-code": ("permission", "permission"),
    "gemini-cli": ("permission", "permission"),
    "opencode": ("permission", "permission"),
}
NEEDS_TOKEN = ("gemini-cli", "opencode")  # no form, and not known to ask: the server wants a token all the same
LISTS_LATER = ("gemini-cli", "opencode")  # shows a changed list one request late


def check(name: str, seen: Seen) -> None:
    """What must be true of the conversation, from the model's and the user's side."""
    turns = seen.turns
    listed = seen.offered["call"][0].tools
    assert any(tool.endswith("enable_toolset") for tool in listed), listed
    assert '"ui.theme' in turns["call"][0][-1].replace("\\", ""), turns["call"]

    declined, approved = turns["declined"], turns["approved"]
    kinds = tuple(turn[1][0].kind for turn in (declined, approved))
    assert kinds == ASKED[name], (declined, approved)
    writes = [message for side, message in seen.messages if side == "client" and _is_write(message)]
    if name in NEEDS_TOKEN:
        assert "get_confirmation_token" in approved[0][-1], approved
        assert "created" in turns["with token"][0][-1], turns["with token"]
        assert len(writes) == 2  # the declined one never reached the server
    else:
        assert "created" in approved[0][-1], approved
        assert len(writes) == (2 if name == "codex" else 1)
    assert not any("created" in result for result in declined[0]), declined
    assert "agent-1" in turns["written"][0][-1], turns["written"]

    assert "call_tool" in turns["enabled"][0][0], turns["enabled"]
    assert '"lots' in turns["through"][0][-1].replace("\\", ""), turns["through"]
    if name in LISTS_LATER:
        counts = [len(offered.tools) for offered in seen.offered["enabled"]]
        assert counts[0] == counts[1], counts  # the request right after enable_toolset still has the old list
        assert len(seen.offered["used"][0].tools) > counts[0]
        assert '"lots' in turns["used"][0][-1].replace("\\", ""), turns["used"]


def _is_write(message: object) -> bool:
    params = message.get("params") if isinstance(message, dict) else None
    return isinstance(params, dict) and params.get("name") == "create_trade"


def _era(seen: Seen) -> str:
    """Claude Code asks `server/discover` first and opens a legacy session where the answer is late; both are kept."""
    listing = next(message for side, message in seen.messages if side == "client" and message["method"] == "tools/list")
    return (
        "-modern" if any(key.endswith("protocolVersion") for key in listing.get("params", {}).get("_meta", {})) else ""
    )


def main(names: list[str]) -> int:
    failed = 0
    for name in names or AGENTS:
        with tempfile.TemporaryDirectory(prefix="zorivest-agents-") as root:
            seen = asyncio.run(converse(name, Path(root) / name))
            try:
                check(name, seen)
            except AssertionError as problem:
                failed += 1
                print(f"{name} {VERSIONS[name]}: FAILED\n{problem}")
                continue
            note = f"{name} {VERSIONS[name]} driven by a scripted model; recorded by make agents"
            path = save(name + _era(seen), note, distil(seen.messages))
        questions = sum(len(asked) for _, asked in seen.turns.values())
        print(f"{name} {VERSIONS[name]}: {len(seen.turns)} turns, the user was asked {questions} times; {path.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
