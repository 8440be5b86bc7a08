"""A configured server made a client that can connect to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zorivest_rpc import __version__
from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.upstream import Happening, Upstream
from zorivest_rpc.gateway.withheld import Withheld, collect_credentials
from zorivest_rpc.mcp.client.caller import Identity
from zorivest_rpc.mcp.protocol.revisions import Era

__all__ = ["IDENTITY", "make_upstream"]

IDENTITY = Identity("zorivest-rpc", __version__)


def make_upstream(
    server: Server,
    environ: Mapping[str, str],
    *,
    meta: Callable[[], bytes] = bytes,
    on_happening: Callable[[Happening], None] | None = None,
) -> Upstream:
    """The client of one server, not connected yet. Credentials are read from `environ` at each connect."""
    era = None if server.era == "auto" else Era(server.era)
    seconds = float(server.timeout_secs)
    withheld = Withheld(collect_credentials(server, environ))
    if server.endpoint is None:
        from zorivest_rpc.gateway.child import choose_environment
        from zorivest_rpc.gateway.stdio_client import StdioUpstream

        assert server.command is not None
        return StdioUpstream(
            server.name,
            (server.command, *server.args),
            IDENTITY,
            environment=choose_environment(environ, server.env_pass),
            cwd=server.cwd,
            era=era,
            seconds=seconds,
            meta=meta,
            on_happening=on_happening,
            withheld=withheld,
        )
    from zorivest_rpc.gateway.http_client import HttpUpstream
    from zorivest_rpc.gateway.net import read_credentials

    return HttpUpstream(
        server.name,
        server.endpoint,
        IDENTITY,
        era=era,
        seconds=seconds,
        credentials=lambda: read_credentials(server.name, environ, server.auth_bearer_env, server.headers_env),
        bearer=server.auth_bearer_env,
        allow_private=server.allow_private_network,
        meta=meta,
        on_happening=on_happening,
        withheld=withheld,
    )
