"""`zorivest-rpc mcp pin`: trust in a configuration file or in definitions, given by a person who has seen them."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zorivest_rpc.cli.mcp.listing import built_in_names
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import ConfigFile, trust
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, load_profile
from zorivest_rpc.gateway.errors import ToolingError, plain_text
from zorivest_rpc.gateway.examine import Examined, examine_tools
from zorivest_rpc.gateway.extras import KINDS, Piece
from zorivest_rpc.gateway.pins import PINNED_FIELDS, Kind, Pins, identity_of
from zorivest_rpc.gateway.scan import Findings
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values

__all__ = ["run_pin"]

_SHOWN = 200  # characters of a value


def run_pin(argv: list[str]) -> int:
    """Exit code 0 pinned or nothing to pin, 1 not agreed to or a server failed, 2 misused or a wrong file."""
    words = Words(argv, flags=("--server", "--tool", "--tenant"), switches=("--json", "--yes"))
    if words.words:
        raise ConfigError("mcp pin", f"takes no word, found {words.words[0]!r}")
    settings = parse("mcp", words.options)
    if settings.untrusted is not None and settings.trust_dir is not None:
        return _pin_file(settings, settings.untrusted, settings.trust_dir, words)
    return _pin_definitions(settings, words)


def _pin_file(settings: Settings, path: str, trust_dir: str, words: Words) -> int:
    # Named, it is judged whole before it is trusted; what is shown and what is trusted are the same bytes.
    judged = parse("mcp", [*words.options, "--config", path])
    file = judged.file
    assert file is not None
    profile = load_profile(judged._replace(profile=None), built_in_names())
    if not words.json:
        print("\n".join(describe(file)))
    if "--yes" not in words.switches and not _agrees(f"Trust {file.path} as it is now?"):
        return _tell(words.json, {"status": "declined", "file": file.path}, "nothing was pinned", code=1)
    trust(file.path, file.sha256, trust_dir)
    _telemetry(settings, profile).emit("mcp.pin.accepted")
    facts = {"status": "pinned", "file": file.path, "sha256": file.sha256}
    return _tell(words.json, facts, f"pinned {file.path}; a changed file has to be pinned again")


def _pin_definitions(settings: Settings, words: Words) -> int:
    """Ask the servers once, show what is held, and accept it."""
    from zorivest_rpc.cli.mcp.discovering import choose_client, choose_servers, discover, examine_rest, report_failure

    profile = choose_client(load_profile(settings, built := built_in_names()), words.flags.get("--tenant"))
    try:
        servers = choose_servers(profile, words.flags.get("--server"))
    except ToolingError as error:
        return report_failure(error)
    passes = discover(settings, profile, servers)
    pins = Pins(settings.data_dir)
    listings = {each.server.name: each.listing for each in passes if each.listing is not None}
    tools = examine_tools(profile, listings, built, pins)
    wanted = words.flags.get("--tool")
    found = [*map(_held_tool, tools), *map(_held_piece, examine_rest(profile, passes, pins, tools, built))]
    held = [each for each in found if each.is_held and wanted in (None, each.upstream, each.published)]
    code = max((report_failure(each.error) for each in passes if each.error is not None), default=0)
    facts: dict[str, Any] = {"definitions": [_fact(tool) for tool in held]}
    if not held:
        return _tell(words.json, {"status": "nothing", **facts}, "nothing to pin", code=code)
    if not words.json:
        print("\n".join(line for tool in held for line in _show(tool, _find_pinned(profile, pins, tool))))
    if "--yes" not in words.switches and not _agrees(f"Accept {_many(held)} as shown?"):
        return _tell(words.json, {"status": "declined", **facts}, "nothing was pinned", code=1)
    telemetry = _telemetry(settings, profile)
    for tool in held:
        server = profile.server(tool.server)
        assert server is not None
        pins.accept(identity_of(profile, server), tool.kind, {tool.upstream: tool.definition})
        telemetry.emit("mcp.pin.accepted", server=tool.server, tool=tool.published)
    return _tell(words.json, {"status": "pinned", **facts}, f"pinned {_many(held)}", code=code)


class _Held(NamedTuple):
    """A tool, prompt, resource or template that may be held."""

    kind: Kind
    server: str
    upstream: str
    published: str | None
    is_held: bool
    reason: str | None
    detail: str
    findings: Findings
    definition: Mapping[str, Any]


def _held_tool(tool: Examined) -> _Held:
    held = tool.state == "held"
    named = (tool.server, tool.upstream, tool.published)
    return _Held("tool", *named, held, tool.reason, tool.detail, tool.findings, tool.definition)


def _held_piece(piece: Piece) -> _Held:
    held = piece.state == "held"
    named = (piece.server, piece.upstream, piece.published)
    return _Held(KINDS[piece.part], *named, held, piece.reason, piece.detail, piece.findings, piece.definition)


def _find_pinned(profile: Profile, pins: Pins, tool: _Held) -> Mapping[str, Any] | None:
    server = profile.server(tool.server)
    return pins.find(identity_of(profile, server), tool.kind, tool.upstream) if server else None


def _show(tool: _Held, before: Mapping[str, Any] | None) -> list[str]:
    """The difference as escaped JSON, so that what is invisible can be seen."""
    lines = [f"{tool.server}: {plain_text(tool.upstream, 64)} is held: {tool.detail}"]
    lines += [f"  {finding}" for finding in tool.findings.hold if tool.reason != "scan"]
    old, new = _written(tool.kind, before), _written(tool.kind, tool.definition)
    lines += difflib.unified_diff(old, new, "pinned", "offered", n=2, lineterm="")
    return lines


def _written(kind: Kind, definition: Mapping[str, Any] | None) -> list[str]:
    if definition is None:
        return []
    kept = {key: definition[key] for key in PINNED_FIELDS[kind] if key in definition}
    return json.dumps(kept, indent=2, sort_keys=True).splitlines()


def _fact(tool: _Held) -> dict[str, Any]:
    return {"server": tool.server, "upstream": tool.upstream, "published": tool.published, "held": tool.detail}


def _many(held: Sequence[_Held]) -> str:
    return "1 definition" if len(held) == 1 else f"{len(held)} definitions"


def describe(file: ConfigFile) -> list[str]:
    """What the file would change, one value on a line, without what could hide something on a terminal."""
    lines = [f"{file.path} sets:"]
    stack: list[tuple[str, Any]] = list(reversed(file.document.items()))
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack += [(f"{path}.{key}", inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            stack += [(f"{path}[{place}]", inner) for place, inner in reversed(list(enumerate(value)))]
        else:
            lines.append(f"  {plain_text(path, _SHOWN)} = {plain_text(repr(value), _SHOWN)}")
    return lines


def _agrees(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("mcp pin", "look at it and run this at a terminal, or with --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _telemetry(settings: Settings, profile: Profile) -> Telemetry:
    redactor = Redactor(secret_values(profile, os.environ))
    return Telemetry(settings.telemetry, redactor, capture_content=settings.telemetry_content)


def _tell(as_json: bool, facts: dict[str, Any], text: str, *, code: int = 0) -> int:
    if as_json:
        from zorivest_rpc.cli.terminal import print_json

        print_json({"schema": "zorivest.mcp.pin.v1", **facts})
    else:
        print(text)
    return code
