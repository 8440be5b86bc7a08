"""`zorivest-rpc mcp list`: the configured servers, and whether their tokens are set; no server is contacted."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import read
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.assignment import UNASSIGNED, is_assigned
from zorivest_rpc.gateway.config import Profile, Server, load_profile
from zorivest_rpc.gateway.errors import plain_text

__all__ = ["built_in_names", "columns", "run_list", "token_states"]


def run_list(argv: list[str]) -> int:
    words = Words(argv, flags=(), switches=("--json", "--all"))
    if words.words:
        raise ConfigError("mcp list", f"takes no word, found {words.words[0]!r}")
    settings = parse("mcp", words.options)
    profile = load_profile(settings, built_in_names())
    shown = profile.mcp_servers if "--all" in words.switches else profile.enabled
    untrusted = untrusted_servers(settings)
    if words.json:
        from zorivest_rpc.cli.terminal import print_json

        print_json(_facts(settings, profile, shown, untrusted, os.environ))
    else:
        print(_text(settings, profile, shown, untrusted, os.environ))
    for warning in profile.warnings:
        print(f"zorivest-rpc: {warning}", file=sys.stderr)
    return 0


def built_in_names() -> frozenset[str]:
    """Our own tools, whose names no alias may take."""
    from zorivest_rpc.serving.catalog.load import load

    definitions = load()
    return frozenset(spec.name for spec in (*definitions.tools, *definitions.meta_tools))


def untrusted_servers(settings: Settings) -> list[dict[str, str]]:
    """The servers of a file that does not count; its author may be anybody, so it is shown as plain text."""
    if settings.untrusted is None:
        return []
    try:
        profiles = read(settings.untrusted).document.get("profiles")
    except ConfigError:
        return []
    table = profiles.get(settings.profile or "default") if isinstance(profiles, Mapping) else None
    servers = table.get("mcp_servers") if isinstance(table, Mapping) else None
    return [_untrusted(server) for server in servers or () if isinstance(server, Mapping)]


def _untrusted(server: Mapping[str, Any]) -> dict[str, str]:
    is_http = "endpoint" in server
    target = str(server.get("endpoint") if is_http else server.get("command")).partition("?")[0]
    name = plain_text(str(server.get("name")), 40)
    return {"name": name, "transport": "http" if is_http else "stdio", "target": plain_text(target, 200)}


def token_states(server: Server, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each variable that holds a credential: `set`, `NOT SET` or `EMPTY`."""
    states = []
    for name in server.secret_variables:
        value = environ.get(name)
        states.append((name, "NOT SET" if value is None else "set" if value.strip() else "EMPTY"))
    return states


def _text(
    settings: Settings,
    profile: Profile,
    shown: tuple[Server, ...],
    untrusted: list[dict[str, str]],
    environ: Mapping[str, str],
) -> str:
    count = len(profile.enabled)
    head = f"profile {profile.name}: no enabled MCP servers"
    if count:
        how = f"mode {profile.tool_confirmation_mode}, {_many(profile.tool_retry_attempts, 'attempt')}, "
        how += f"{profile.tool_retry_delay_ms} ms delay, {profile.tool_timeout_secs} s per call"
        head = f"profile {profile.name}: {_many(count, 'enabled MCP server')} ({how})"
    rows = [_row(settings, server, environ) for server in shown]
    rows += [[each["name"], each["transport"], each["target"], "", "", "untrusted"] for each in untrusted]
    lines = [head, *columns(rows)]
    if settings.untrusted:
        lines.append(f'untrusted: {settings.untrusted} (look at it, then run "zorivest-rpc mcp pin" to use it)')
    return "\n".join(lines)


def _state(settings: Settings, server: Server) -> str:
    if _is_for_none(settings, server):
        return UNASSIGNED
    return "configured" if server.enabled else "disabled"


def _is_for_none(settings: Settings, server: Server) -> bool:
    return bool(settings.tenant_sources) and server.enabled and not is_assigned(server)


def _row(settings: Settings, server: Server, environ: Mapping[str, str]) -> list[str]:
    states = token_states(server, environ)
    token = "token " + ", ".join(f"{name}: {state}" for name, state in states) if states else "token: none"
    allowed = server.tool_allowlist
    tools = "all" if allowed is None else ",".join(allowed) or "none"
    transport = "http" if server.endpoint else "stdio"
    off = "" if server.enabled else "  disabled"
    if _is_for_none(settings, server):
        off = f"  {UNASSIGNED}"
    return [server.name, transport, server.target, f"{server.timeout_secs} s", token, f"tools {tools}{off}"]


def columns(rows: list[list[str]]) -> list[str]:
    """Rows with their columns under each other; the last one has no padding."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [line.rstrip() for line in padded]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _facts(
    settings: Settings,
    profile: Profile,
    shown: tuple[Server, ...],
    untrusted: list[dict[str, str]],
    environ: Mapping[str, str],
) -> dict[str, Any]:
    servers: list[dict[str, Any]] = [
        {
            "name": server.name,
            "state": _state(settings, server),
            "transport": "http" if server.endpoint else "stdio",
            "target": server.target,
            "timeout_secs": server.timeout_secs,
            "tokens": [{"variable": name, "state": state} for name, state in token_states(server, environ)],
            "tool_allowlist": None if server.tool_allowlist is None else list(server.tool_allowlist),
        }
        for server in shown
    ]
    servers += [{"name": each["name"], "state": "untrusted", **each} for each in untrusted]
    return {
        "schema": "zorivest.mcp.list.v1",
        "profile": profile.name,
        "file": profile.file,
        "untrusted_file": settings.untrusted,
        "tool_confirmation_mode": profile.tool_confirmation_mode,
        "tool_retry_attempts": profile.tool_retry_attempts,
        "tool_retry_delay_ms": profile.tool_retry_delay_ms,
        "tool_timeout_secs": profile.tool_timeout_secs,
        "servers": servers,
    }
