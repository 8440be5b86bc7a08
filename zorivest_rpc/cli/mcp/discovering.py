"""`zorivest-rpc mcp discover`: every server is asked once, and all that is told comes from that one pass."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from zorivest_rpc.cli.mcp.listing import built_in_names, columns
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, Server, load_profile
from zorivest_rpc.gateway.errors import ServerDisabled, ServerNotFound, ToolingError, plain_text
from zorivest_rpc.gateway.examine import Examined, examine_tools
from zorivest_rpc.gateway.extras import NOTHING, Extras, Piece, examine_extras, judge_extras, read_extras
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values
from zorivest_rpc.mcp.client.lists import Listing

__all__ = ["Pass", "choose_servers", "discover", "examine_rest", "report_failure", "run_discover"]

AT_ONCE: Final = 8
_STDERR_LINES: Final = 10
_LABELS: Final = {
    "auth_env_missing": "auth",
    "auth_env_empty": "auth",
    "auth_rejected": "auth",
    "connect_failed": "connect",
    "redirect_refused": "redirect",
    "address_refused": "address",
    "stdio_spawn": "start",
    "stdio_exited": "exit",
    "upstream_error": "error",
}


class Pass(NamedTuple):
    """What one server answered, or why it did not."""

    server: Server
    listing: Listing | None = None
    error: ToolingError | None = None
    revision: str | None = None
    era: str | None = None
    milliseconds: int = 0
    stderr: tuple[str, ...] = ()
    extras: Extras = NOTHING


def run_discover(argv: list[str]) -> int:
    """Exit code 0 all answered or nothing to ask, 1 a server failed or is not there, 2 misused."""
    words = Words(argv, flags=("--server", "--tenant"), switches=("--json",))
    if words.words:
        raise ConfigError("mcp discover", f"takes no word, found {words.words[0]!r}")
    settings = parse("mcp", words.options)
    profile = choose_client(load_profile(settings, built := built_in_names()), words.flags.get("--tenant"))
    from zorivest_rpc.cli.logs import set_up_logging

    set_up_logging(settings)
    try:
        servers = choose_servers(profile, words.flags.get("--server"))
    except ToolingError as error:
        if words.json:
            _print_json(profile, [], (), (), error)
        return report_failure(error)
    passes = discover(settings, profile, servers)
    listings = {each.server.name: each.listing for each in passes if each.listing is not None}
    tools = examine_tools(profile, listings, built, Pins(settings.data_dir), confirm=settings.confirm)
    pieces = examine_rest(profile, passes, Pins(settings.data_dir), tools, built)
    _record(settings, profile, passes, tools)
    if words.json:
        _print_json(profile, passes, tools, pieces)
    else:
        print("\n".join(_lines(profile, passes, tools, pieces)))
    failed = [each for each in passes if each.error is not None]
    if not failed:
        return 0
    assert failed[0].error is not None
    many = f"{len(failed)} of {len(passes)} MCP servers" if len(passes) > 1 else "1 of 1 MCP server"
    print(f"[TOOLING] {many} failed\nHint: {failed[0].error.hint}", file=sys.stderr)
    return 1


def choose_client(profile: Profile, id: str | None) -> Profile:
    """The whole profile, or what one client has of it, asked with that client's own tokens."""
    if id is None:
        return profile
    from zorivest_rpc.gateway.assignment import seen_by

    return seen_by(profile, id)


def choose_servers(profile: Profile, name: str | None) -> tuple[Server, ...]:
    """All that are enabled, or the named one."""
    if name is None:
        return profile.enabled
    server = profile.server(name)
    if server is None:
        raise ServerNotFound(name, profile.name, [each.name for each in profile.mcp_servers])
    if not server.enabled:
        raise ServerDisabled(server.name, profile.name)
    return (server,)


def report_failure(error: ToolingError) -> int:
    print(f"[{error.kind}] {error.problem}\nHint: {error.hint}", file=sys.stderr)
    return error.exit_code


def discover(settings: Settings, profile: Profile, servers: Sequence[Server]) -> list[Pass]:
    """Ask each of them once, in the order given, eight at a time."""
    redactor = Redactor(secret_values(profile, os.environ))

    async def ask_all() -> list[Pass]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(server: Server) -> Pass:
            async with gate:
                return await _ask(server, redactor)

        return list(await asyncio.gather(*(ask(server) for server in servers)))

    return asyncio.run(ask_all())


async def _ask(server: Server, redactor: Redactor) -> Pass:
    upstream = make_upstream(server, os.environ)
    began = time.monotonic()
    deadline = asyncio.get_running_loop().time() + server.timeout_secs
    try:
        welcome = await upstream.connect(deadline)
        listing = await upstream.list_tools(deadline) if welcome.offered.tools else Listing(())
        took = round((time.monotonic() - began) * 1000)
        extras = await read_extras(upstream, server)
        return Pass(server, listing, None, welcome.revision.name, welcome.revision.era.value, took, extras=extras)
    except ToolingError as error:
        error.problem = redactor.text(error.problem)  # a server may repeat in its refusal what it was sent
        text = redactor.text(getattr(upstream, "stderr", ""))
        lines = [plain_text(line, 200) for line in text.splitlines() if line.strip()]
        took = round((time.monotonic() - began) * 1000)
        return Pass(server, None, error, milliseconds=took, stderr=tuple(lines[-_STDERR_LINES:]))
    finally:
        await upstream.close()


def examine_rest(
    profile: Profile, passes: Sequence[Pass], pins: Pins, tools: Sequence[Examined], built_in: Collection[str]
) -> tuple[Piece, ...]:
    """What became of the prompts, resources and templates of one pass."""
    from zorivest_rpc.serving.tools.prompts import ARGUMENTS

    offers = {
        each.server.name: replace(each.extras, verdicts=judge_extras(profile, each.server, each.extras, pins))
        for each in passes
        if each.extras != NOTHING
    }
    owners = {tool.published: tool.server for tool in tools if tool.published} | dict.fromkeys(built_in, "")
    return examine_extras(profile, offers, ARGUMENTS, owners)


def _lines(profile: Profile, passes: Sequence[Pass], tools: Sequence[Examined], pieces: Sequence[Piece]) -> list[str]:
    if not passes:
        return [f"profile {profile.name}: no enabled MCP servers"]
    heads = columns([_head(each, tools) for each in passes])
    lines: list[str] = []
    for each, head in zip(passes, heads, strict=True):
        lines.append(head)
        own = [tool for tool in tools if tool.server == each.server.name]
        shown = [[_plain(tool.upstream), tool.published or "", _fate(tool)] for tool in own if tool.state != "dropped"]
        lines += [f"        {line}" for line in columns(shown)]
        width = max((len(row[0]) for row in shown), default=0)
        dropped = [tool for tool in own if tool.state == "dropped"]
        lines += [f"        {_plain(tool.upstream).ljust(width)}  not published: {tool.detail}" for tool in dropped]
        rest = [
            [piece.part, _plain(piece.upstream), _lot(piece)] for piece in pieces if piece.server == each.server.name
        ]
        lines += [f"        {line}" for line in columns(rest)]
        lines += [f"        | {line}" for line in each.stderr]
    return lines


def _head(each: Pass, tools: Sequence[Examined]) -> list[str]:
    name = each.server.name
    if each.error is not None:
        return ["FAIL", name, _LABELS.get(each.error.code, each.error.code), _brief(each.error, each.server)]
    count = sum(tool.state == "published" for tool in tools if tool.server == name)
    return ["ok", name, f"{count} tool{'' if count == 1 else 's'}", f"{each.revision}  {each.milliseconds} ms"]


def _brief(error: ToolingError, server: Server) -> str:
    """The text without the server's name, which stands before it; with the address where it has none."""
    text = error.problem.removeprefix(f'MCP server "{server.name}"').lstrip(": ").removeprefix("gave ").rstrip(".")
    return text if error.code != "timeout" else f"{text} ({server.target})"


def _fate(tool: Examined) -> str:
    if tool.state == "held":
        return f"held: {tool.detail}"
    assert tool.decision is not None
    verdict = tool.decision.verdict
    return f"{verdict} ({tool.decision.list})" if tool.decision.list else verdict


def _lot(piece: Piece) -> str:
    if piece.state == "dropped":
        return f"not published: {piece.detail}"
    return f"held: {piece.detail}" if piece.state == "held" else _plain(piece.published or "")


def _plain(name: str) -> str:
    return plain_text(name, 64)


def _state(each: Pass, tools: Sequence[Examined]) -> str:
    if each.error is not None:
        return "auth_failed" if _LABELS.get(each.error.code) == "auth" else "unavailable"
    own = [tool for tool in tools if tool.server == each.server.name and tool.state != "dropped"]
    return "quarantined" if own and all(tool.state == "held" for tool in own) else "ready"


def _print_json(
    profile: Profile,
    passes: Sequence[Pass],
    tools: Sequence[Examined],
    pieces: Sequence[Piece],
    error: ToolingError | None = None,
) -> None:
    from zorivest_rpc.cli.terminal import print_json

    servers = [
        {
            "name": each.server.name,
            "state": _state(each, tools),
            "era": each.era,
            "latency_ms": each.milliseconds,
            "tools": [_tool(tool) for tool in tools if tool.server == each.server.name],
            **_rest(each, pieces),
            "error": None if each.error is None else _error(each.error),
        }
        for each in passes
    ]
    failed = sum(each.error is not None for each in passes)
    facts: dict[str, Any] = {"schema": "zorivest.mcp.discover.v1", "profile": profile.name, "servers": servers}
    print_json({**facts, "failed": failed} | ({} if error is None else {"error": _error(error)}))


def _tool(tool: Examined) -> dict[str, Any]:
    """What has no place in a list has no published name and no decision; `reason` says why."""
    is_dropped = tool.state == "dropped"
    return {
        "upstream": tool.upstream,
        "published": None if is_dropped else tool.published,
        "decision": None if is_dropped or tool.decision is None else tool.decision.verdict,
        "held": tool.detail if tool.state == "held" else None,
        "reason": tool.reason,
    }


def _rest(each: Pass, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Only of a server that has some: most have tools alone."""
    found: dict[str, Any] = {}
    for piece in pieces:
        if piece.server == each.server.name:
            found.setdefault(f"{piece.part}s", []).append(
                {
                    "upstream": piece.upstream,
                    "published": None if piece.state == "dropped" else piece.published,
                    "held": piece.detail if piece.state == "held" else None,
                    "reason": piece.reason,
                }
            )
    return found


def _error(error: ToolingError) -> dict[str, Any]:
    return {"class": error.kind, "code": error.code, "text": error.problem, "hint": error.hint}


def _record(settings: Settings, profile: Profile, passes: Sequence[Pass], tools: Sequence[Examined]) -> None:
    """The events of the pass, as a serving process tells them."""
    redactor = Redactor(secret_values(profile, os.environ))
    telemetry = Telemetry(settings.telemetry, redactor, capture_content=settings.telemetry_content)
    for each in passes:
        name = each.server.name
        telemetry.emit("mcp.discovery.started", server=name)
        if each.error is not None:
            telemetry.emit("mcp.discovery.failed", server=name, code=each.error.code)
            continue
        own = [tool for tool in tools if tool.server == name]
        held = [tool for tool in own if tool.state == "held"]
        for tool in held:
            verdict = tool.verdict
            old, new = (verdict.hash_old, verdict.hash) if verdict else (None, None)
            telemetry.emit(
                "mcp.tool.held", server=name, tool=tool.published, reason=tool.reason, hash_old=old, hash_new=new
            )
        count = sum(tool.state == "published" for tool in own)
        facts = {"tools": count, "held": len(held), "era": each.era, "latency_ms": each.milliseconds}
        telemetry.emit("mcp.discovery.succeeded", server=name, **facts)
