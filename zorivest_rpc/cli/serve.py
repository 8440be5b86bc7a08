"""`zorivest-rpc serve`: Streamable HTTP and HTTP+SSE on one address, until a signal."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from secrets import token_urlsafe

from zorivest_rpc import __version__
from zorivest_rpc.cli.logs import set_up_logging
from zorivest_rpc.config import Settings, parse, usage
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.offer import Offer

__all__ = ["run", "serve_http"]


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(usage("serve"))
        return 0
    from zorivest_rpc.showcase import offer

    return serve_http(offer, parse("serve", argv))


def serve_http(make_offer: Callable[[], Offer], settings: Settings) -> int:
    set_up_logging(settings)
    if settings.no_auth and settings.host not in ("127.0.0.1", "::1", "localhost"):
        raise ConfigError("--no-auth", f"only for a loopback address, and {settings.host} is none")
    return _loop_runner()(_serve(make_offer, settings))


def _loop_runner() -> Callable[..., int]:
    """uvloop where it is installed; the plain loop does the same, a little slower."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(make_offer: Callable[[], Offer], settings: Settings) -> int:
    from zorivest_rpc.dispatcher import Limits
    from zorivest_rpc.protocol.session import Session
    from zorivest_rpc.server import Server
    from zorivest_rpc.transports.http import HttpOptions, HttpTransport, bearer_keys, nobody_asked, with_names
    from zorivest_rpc.transports.sessions import Journal, SessionStore, load_key

    data = Path(settings.data_dir)
    lock = _lock(data)
    sessions: SessionStore | None = None

    def remember(session: Session) -> None:
        if sessions is not None:
            sessions.remember(session)

    limits = Limits(settings.calls_per_client, settings.calls_per_server, settings.input_seconds)
    server = Server(make_offer(), key=load_key(data / "session.key"), limits=limits, remember=remember)
    options = with_names(
        HttpOptions(
            host=settings.host,
            port=settings.port,
            body_limit=settings.message_limit,
            grace=settings.grace,
            authorization_servers=settings.authorization_server,
            plain_writer=settings.http_writer == "plain",
            session_life=settings.session_hours * 3600.0,
        ),
        settings.allow_host,
        settings.allow_origin,
    )
    journal = Journal(data / "sessions.journal", server.now)
    sessions = SessionStore(server.seal, server.announcer, journal, server.now, server.epoch, life=options.session_life)
    authenticate = nobody_asked if settings.no_auth else bearer_keys({_key(settings, data): "owner"})
    transport = HttpTransport(
        server, options, authenticate=authenticate, sessions=sessions, facts=lambda: {"version": __version__}
    )
    try:
        await transport.start()
    except OSError as exc:
        raise ConfigError("--port", f"cannot listen on {settings.host}:{settings.port}: {exc.strerror}") from None
    _greet(settings, transport.port, data)
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await transport.stop()
    journal.close()
    os.close(lock)
    return 0


def _lock(data: Path) -> int:
    """One server per data directory: two would not see each other's ended sessions."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(data / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError:
        os.close(descriptor)
        words = f"{data} is in use by another zorivest-rpc serve; stop it or name another directory"
        raise ConfigError("--data-dir", words) from None
    return descriptor


def _key(settings: Settings, data: Path) -> str:
    """The key that callers have to show: from the environment, or made once and kept in a file of the owner's."""
    if settings.api_key:
        return settings.api_key
    path = data / "serve.key"
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token_urlsafe(32) + "\n")
    return path.read_text().strip()


def _greet(settings: Settings, port: int, data: Path) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    print(f"zorivest-rpc {__version__} listens on http://{host}:{port}/mcp (2024-11-05 clients: /sse)", file=sys.stderr)
    if settings.no_auth:
        print("No key is asked for. Everybody on this machine can call.", file=sys.stderr)
    elif settings.api_key:
        print("Callers send the key of ZORIVEST_API_KEY as: Authorization: Bearer …", file=sys.stderr)
    else:
        print(f"Callers send the key in {data / 'serve.key'} as: Authorization: Bearer …", file=sys.stderr)
    sys.stderr.flush()
