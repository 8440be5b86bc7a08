"""What an agent and the server said to each other, fit to be kept: no path, time, id or token of one machine or run.

A transcript is lines of JSON, a note first. A line of the client is its whole message, to be sent again. A line of the
server is its gist: what it was, whether it was a refusal and which, what it listed or asked. The replay sends the
former and compares the latter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Json = Any
HERE = Path(__file__).parent / "transcripts"
TOKEN = "<token>"
_DROPPED_META = ("x-codex-turn-metadata", "callId", "claudecode/toolUseId")
_LOOKED_FOR = ("create_trade", "call_tool", "enable_toolset", "get_confirmation_token", "get_tax_lots")
_TOKEN = re.compile(r"ctk_[\w-]+")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PATH = re.compile(r"(?:file://)?/(?:tmp|work|home|root|Users|var|private)/[^\s\"']*")


def scrub(message: Json, ids: dict[str, str]) -> Json:
    """A client's message without what belongs to one run; `ids` numbers the identifiers met so far."""
    if isinstance(message, dict):
        return {key: scrub(value, ids) for key, value in message.items() if key not in _DROPPED_META}
    if isinstance(message, list):
        return [scrub(entry, ids) for entry in message]
    if isinstance(message, str):
        plain = _UUID.sub(lambda found: ids.setdefault(found[0], f"<id-{len(ids) + 1}>"), message)
        return _PATH.sub("<path>", _TOKEN.sub(TOKEN, plain))
    return message


def gist(message: Json, method: str | None) -> Json:
    """What matters of a server's message; `method` is that of the request it answers."""
    if "method" in message:
        said: dict[str, Json] = {"method": message["method"]}
        if message["method"] == "elicitation/create":
            said["fields"] = sorted(message["params"]["requestedSchema"]["properties"])
        return said
    if "error" in message:
        return {"id": message["id"], "error": message["error"]["code"]}
    result = message["result"]
    said = {"id": message["id"]}
    if method == "initialize":
        said["protocolVersion"] = result["protocolVersion"]
    elif method == "tools/list":
        listed = {tool["name"]: tool for tool in result["tools"]}
        said["lists"] = [name for name in _LOOKED_FOR if name in listed]
        said["marked"] = [name for name in _LOOKED_FOR if _is_marked(listed.get(name, {}))]
    elif method == "tools/call":
        refusal = result.get("_meta", {}).get("com.zorivest/error")
        said |= {"refused": refusal["code"]} if refusal else {"done": not result.get("isError", False)}
        if isinstance(words := result.get("structuredContent", {}).get("message"), str):
            said["message"] = re.sub(r"\d+", "N", words)  # how many tools a toolset has is no matter here
    return said


def _is_marked(tool: Json) -> bool:
    return tool.get("_meta", {}).get("anthropic/requiresUserInteraction") is True


def distil(messages: Iterable[tuple[str, Json]]) -> list[Json]:
    """The lines of a transcript."""
    asked: dict[Json, str] = {}
    lines: list[Json] = []
    questions: dict[Json, str] = {}
    ids: dict[str, str] = {}
    for side, message in messages:
        if side == "client":
            if "id" in message and "method" in message:
                asked[message["id"]] = message["method"]
            answered = {} if "method" in message else {"id": questions.get(message["id"], message["id"])}
            lines.append({"client": scrub({**message, **answered}, ids)})
            continue
        said = gist(message, asked.get(message.get("id")))
        if "method" in message and "id" in message:
            said["id"] = questions[message["id"]] = f"question-{len(questions) + 1}"
        lines.append({"server": said})
    return lines


def save(name: str, note: str, lines: Iterable[Json]) -> Path:
    HERE.mkdir(exist_ok=True)
    path = HERE / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in ({"note": note}, *lines)))
    return path


def read(name: str) -> tuple[str, list[Json]]:
    note, *lines = (json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines())
    return note["note"], lines
