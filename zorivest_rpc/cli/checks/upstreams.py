"""Other MCP servers: a profile that does not load, a file that is not trusted, tokens that are not set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError

from .line import Line, fail, ok, warn

__all__ = ["profile"]


def profile(settings: Settings, environ: Mapping[str, str]) -> Iterator[Line]:
    """What can be said of them without contacting one; nothing where none is configured."""
    if settings.untrusted:
        text = f"{settings.untrusted} is not used, because it may come with a repository"
        yield warn("upstreams", text, "Look at it, then run: zorivest-rpc mcp pin")
    if settings.file is None or not (settings.profile or settings.file.document.get("profiles")):
        return
    from zorivest_rpc.cli.mcp.listing import built_in_names, token_states
    from zorivest_rpc.gateway.config import load_profile

    try:
        loaded = load_profile(settings, built_in_names())
    except ConfigError as error:
        for line in str(error).splitlines():
            yield fail("upstreams", line, "Correct the file.")
        return
    for server in loaded.enabled:
        missing = [(name, state) for name, state in token_states(server, environ) if state != "set"]
        for name, state in missing:
            told = "is not set" if state == "NOT SET" else "is empty"
            yield warn("upstreams", f"{server.name}: {name} {told}", f"Export {name} where the server is started.")
        if not missing:
            yield ok("upstreams", f"{server.name}: configured; zorivest-rpc mcp discover asks it")
    for warning in loaded.warnings:
        yield warn("upstreams", warning, "Name the tools, or remove the empty list.")
