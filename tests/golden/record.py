"""What clients see, as files: every tool in three modes and two eras, the two lists that a session can begin with, and
the opening of every client family with the name of its list.

With them goes the sum of the tool files, by which a start knows that they were checked; it is written only if every
rule is kept.

`python -m tests.golden.record --write` rewrites them; the diff is the review. `test_golden.py` compares.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient
from zorivest_rpc.serving.catalog.load import CHECKED, check, make_stamp, schemas_dir

HERE = Path(__file__).parent
CLIENTS = {"anthropic": "claude-code", "dynamic": "cline", "static": "cursor"}
HANDSHAKES = HERE.parent / "serving" / "modes" / "handshakes.json"
ERAS = ("2025-11-25", "2026-07-28")
LISTS = HERE / "lists.json"
STAMP = Path(schemas_dir()) / CHECKED


def journal(data: str) -> Journal:
    return Journal(parse("stdio", ["--data-dir", data], {"HOME": data}))


def meta(name: dict[str, Any] | None, capabilities: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    return given | ({"io.modelcontextprotocol/clientInfo": name} if name else {})


def ask(client: MemoryClient, id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    client.send(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    answers = [orjson.loads(frame) for frame in client.take_frames()]
    answer: dict[str, Any] = next(each for each in answers if each.get("id") == id)
    return answer


def opening(client: MemoryClient, revision: str, info: dict[str, Any] | None, capabilities: dict[str, Any]) -> Any:
    if revision == "2026-07-28":
        return ask(client, 1, "server/discover", {"_meta": meta(info, capabilities)})["result"]
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": info}
    result = ask(client, 1, "initialize", params)["result"]
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return result


def listing(client: MemoryClient, revision: str, info: dict[str, Any] | None, capabilities: dict[str, Any]) -> Any:
    params = {"_meta": meta(info, capabilities)} if revision == "2026-07-28" else {}
    return ask(client, 2, "tools/list", params)["result"]


def _names_listed(data: str, toolsets: str) -> list[str]:
    """The order in which a client gets the tools of some toolsets."""
    chosen = Journal(parse("stdio", ["--data-dir", data, "--toolsets", toolsets], {"HOME": data}))
    client = MemoryClient(Server(chosen.offer))
    info = {"name": CLIENTS["static"], "version": "99"}
    opening(client, ERAS[0], info, {})
    return [tool["name"] for tool in listing(client, ERAS[0], info, {})["tools"]]


async def record(data: str) -> dict[Path, Any]:
    """Every golden file and what belongs into it."""
    shelf = journal(data)
    files: dict[Path, Any] = {STAMP: make_stamp()}
    names = [spec.name for spec in shelf.audience.specs.values() if not spec.tenancy]
    shown: dict[str, dict[str, Any]] = {name: {} for name in names}
    for mode, client_name in CLIENTS.items():
        for revision in ERAS:
            everything = Journal(parse("stdio", ["--data-dir", data, "--toolsets", "all"], {"HOME": data}))
            client = MemoryClient(Server(everything.offer))
            info = {"name": client_name, "version": "99"}
            opening(client, revision, info, {})
            for tool in listing(client, revision, info, {})["tools"]:
                shown[tool["name"]][f"{mode} {revision}"] = tool
    for name in names:
        files[HERE / "tools" / f"{name}.json"] = shown[name]
    files[LISTS] = lists = {toolsets: _names_listed(data, toolsets) for toolsets in ("default", "all")}
    for handshake in handshakes():
        files[golden(handshake)] = _greeted(MemoryClient(Server(journal(data).offer)), handshake, lists)
    return files


def handshakes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(HANDSHAKES.read_text())
    return found


def golden(handshake: dict[str, Any]) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", handshake["family"].lower()).strip("-")
    return HERE / "handshakes" / f"{slug}.json"


def _greeted(client: MemoryClient, handshake: dict[str, Any], lists: dict[str, list[str]]) -> dict[str, Any]:
    """The opening of one family with its habits: what it sends before it asks for the tools, and what it gets."""
    revision, info = handshake["revision"], handshake.get("clientInfo")
    capabilities = handshake["capabilities"]
    habits: dict[str, Any] = {}
    if handshake.get("probes"):
        habits["server/discover"] = sorted(ask(client, 0, "server/discover", {"_meta": meta(info, capabilities)}))
    answer = opening(client, revision, info, capabilities)
    for id, method in enumerate(handshake.get("asks_first", ()), 10):
        habits[method] = sorted(ask(client, id, method, {})["result"])
    if handshake.get("subscribes"):
        wanted = {"notifications": {"toolsListChanged": True}, "_meta": meta(info, capabilities)}
        request = {"jsonrpc": "2.0", "id": 20, "method": "subscriptions/listen", "params": wanted}
        client.send(orjson.dumps(request))
        habits["subscriptions/listen"] = [orjson.loads(frame)["method"] for frame in client.take_frames()]
    names = [tool["name"] for tool in listing(client, revision, info, capabilities)["tools"]]
    return {
        "sent": {"revision": revision, "clientInfo": info, "capabilities": capabilities},
        **({"habits": habits} if habits else {}),
        "revision": answer.get("protocolVersion", revision),
        "capabilities": answer["capabilities"],
        "instructions": answer["instructions"].split("\n"),
        "lists": next((name for name, listed in lists.items() if listed == names), names),
    }


def text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    if problems := check():
        print(*problems, sep="\n")
        return 1
    writes = "--write" in sys.argv
    stamped = writes and _write_stamp()
    with tempfile.TemporaryDirectory() as data:
        files = asyncio.run(record(data))
    stale = [STAMP] * stamped
    stale += [path for path, value in files.items() if not path.exists() or path.read_text() != text(value)]
    stale += [
        path for folder in ("tools", "handshakes") for path in (HERE / folder).glob("*.json") if path not in files
    ]
    if writes:
        for path in stale:
            if path in files:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text(files[path]))
            else:
                path.unlink()
    for path in stale:
        print(path.relative_to(HERE) if HERE in path.parents else path.name)
    return 0 if writes or not stale else 1


def _write_stamp() -> bool:
    """Write the sum of the checked files first: without it each of the forty starts that follow checks them again."""
    sum_of_files = text(make_stamp())
    if STAMP.exists() and STAMP.read_text() == sum_of_files:
        return False
    STAMP.write_text(sum_of_files)
    return True


if __name__ == "__main__":
    sys.exit(main())
