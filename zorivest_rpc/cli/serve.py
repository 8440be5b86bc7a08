"""`zorivest-rpc serve`: Streamable HTTP and HTTP+SSE on one address, until a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from zorivest_rpc import __version__
from zorivest_rpc.cli.logs import set_up_logging
from zorivest_rpc.cli.stdio import reload_on_hangup
from zorivest_rpc.config import Settings, parse, usage
from zorivest_rpc.core_dumps import forbid_core_dumps
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.offer import Offer

if TYPE_CHECKING:
    from zorivest_rpc.app import Journal
    from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
    from zorivest_rpc.mcp.transports.http import Authenticate, HttpTransport
    from zorivest_rpc.mcp.transports.session_journal import SessionJournal

__all__ = ["run", "serve_http"]

log: Final = logging.getLogger("zorivest_rpc")
_THREADS = "tool"
_PATHS = """Serves /mcp (Streamable HTTP, every revision), /sse and /messages (the transport of 2024-11-05), /health and
/ready (for a process supervisor), and /metrics (Prometheus text, for callers with a key)."""


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(usage("serve") + "\n\n" + _PATHS)
        return 0
    settings = parse("serve", argv)
    if settings.showcase:
        from zorivest_rpc.showcase import offer

        return serve_http(offer, settings)
    from zorivest_rpc.app import Journal

    journal = Journal(settings)
    return serve_http(lambda: journal.offer, settings, journal)


def serve_http(make_offer: Callable[[], Offer], settings: Settings, journal: Journal | None = None) -> int:
    """An offer behind a static key, or the journal, whose callers show a key of its backend."""
    set_up_logging(settings)
    forbid_core_dumps()
    loopback = settings.host in ("127.0.0.1", "::1", "localhost")
    if settings.no_auth and not loopback:
        raise ConfigError("--no-auth", f"only for a loopback address, and {settings.host} is none")
    if settings.demo and (settings.api_url or settings.tenant_sources):
        raise ConfigError("--demo", "only with the embedded backend")
    tenancy = None if journal is None else journal.tenancy
    if tenancy is not None:
        tenancy.check_start(loopback=loopback)
    elif settings.no_auth and settings.api_url:
        raise ConfigError("--no-auth", "only with the embedded backend; callers of another one show its key")
    return _loop_runner()(_serve(make_offer(), settings, journal))


def _loop_runner() -> Callable[..., int]:
    """uvloop where it is installed; the plain loop does the same, a little slower."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


async def _serve(offer: Offer, settings: Settings, journal: Journal | None) -> int:
    data = Path(settings.data_dir)
    lock = _lock(data)
    transport, records = _build(offer, settings, journal, data)
    if journal is not None and not await _create_journal(journal, settings):
        records.close()
        os.close(lock)
        return 1
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(thread_name_prefix=_THREADS)
    loop.set_default_executor(threads)
    stopped = asyncio.Event()

    def on_signal() -> None:
        if stopped.is_set():
            transport.hurry()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    if journal is not None and (settings.file is not None or journal.tenancy is not None):
        reload_on_hangup(loop, journal.reload)
    try:
        await transport.start()
    except OSError as exc:
        raise ConfigError("--port", f"cannot listen on {settings.host}:{settings.port}: {exc.strerror}") from None
    _greet(settings, transport.port, data, journal)
    if journal is not None:
        journal.observing.is_listening(f"http://{_host_to_show(settings)}:{transport.port}", transport.port)
    first = None if journal is None else asyncio.create_task(_first_steps(settings, journal, transport.port))
    await stopped.wait()
    if first is not None:
        first.cancel()
    if journal is not None:
        await journal.observing.close()
    await transport.stop()
    records.close()
    if journal is not None:
        await journal.close()
    os.close(lock)
    threads.shutdown(wait=False, cancel_futures=True)
    await _leave_threads()
    return 0


def _build(
    offer: Offer, settings: Settings, journal: Journal | None, data: Path
) -> tuple[HttpTransport, SessionJournal]:
    """The transport that serves the offer, and the records of its sessions, which the caller closes."""
    from zorivest_rpc.mcp.dispatcher import Limits
    from zorivest_rpc.mcp.server import Server
    from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, with_names
    from zorivest_rpc.mcp.transports.session_journal import SessionJournal
    from zorivest_rpc.mcp.transports.sessions import SessionStore, load_key

    sessions: SessionStore | None = None

    def remember(session: Session) -> None:
        if sessions is not None:
            sessions.remember(session)

    limits = Limits(settings.calls_per_client, settings.calls_per_server, settings.input_seconds)
    server = Server(offer, key=load_key(data / "session.key"), limits=limits, remember=remember)
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
    records = SessionJournal(data / "sessions.journal", server.now)
    sessions = SessionStore(server.seal, server.announcer, records, server.now, server.epoch, life=options.session_life)
    tenancy = None if journal is None else journal.tenancy
    authenticate = _authenticate(settings, data, journal)
    transport = HttpTransport(
        server,
        options,
        authenticate=authenticate,
        holding=(lambda header: nullcontext()) if journal is None or tenancy is not None else journal.callers.holding,
        sessions=sessions,
        facts=lambda: {"version": __version__},
        metrics=None if journal is None else journal.prometheus,
        gate=_ignore_client_header if tenancy is None else tenancy.check_headers,
        beside={} if journal is None else journal.observing.beside(),
    )
    return transport, records


def _ignore_client_header(headers: RequestHeaders) -> None:
    """It chooses among several clients, and here is one; who expects otherwise finds out at the level debug."""
    if log.isEnabledFor(logging.DEBUG) and headers.get("X-Client-ID") is not None:
        log.debug("the header X-Client-ID is ignored: this server has one client")


def _authenticate(settings: Settings, data: Path, journal: Journal | None) -> Authenticate:
    """Who may call: by an access key, by nobody's leave, by our own key, or by a key of the backend."""
    from zorivest_rpc.mcp.transports.http import accept_everyone, bearer_keys

    if journal is not None and journal.tenancy is not None and journal.tenancy.tenants.access:
        return journal.tenancy.authenticate
    if settings.no_auth:
        return accept_everyone
    if journal is None:
        return bearer_keys({_key(settings, data): "owner"})
    return journal.callers.authenticate


async def _create_journal(journal: Journal, settings: Settings) -> bool:
    """Make the journal before anything listens, so that no caller can; False if that failed, which was said."""
    from zorivest_rpc.cli.welcome import tell_founding
    from zorivest_rpc.errors import ZorivestError

    try:
        if (
            journal.tenancy is None and await journal.callers.create_embedded() and not settings.demo
        ):  # the demo's welcome shows the key
            tell_founding(journal)
    except ZorivestError as error:
        print(f"zorivest-rpc serve: {error}", file=sys.stderr)
        return False
    return True


async def _first_steps(settings: Settings, journal: Journal, port: int) -> None:
    """Work that is done before the first call."""
    journal.start_upstreams()
    if settings.demo:
        from zorivest_rpc.cli.welcome import welcome

        await welcome(journal, f"http://{_host_to_show(settings)}:{port}/mcp")
    elif journal.tenancy is not None:
        await journal.tenancy.start()
    elif settings.no_auth:
        await journal.warm_up()


def _host_to_show(settings: Settings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host


async def _leave_threads() -> None:
    """The interpreter would wait for a thread that still blocks, and it cannot be stopped: end the process instead."""
    import threading

    for _ in range(50):
        if not any(thread.name.startswith(_THREADS) for thread in threading.enumerate()):
            return
        await asyncio.sleep(0.01)
    sys.stderr.flush()
    os._exit(0)


def _lock(data: Path) -> int:
    """One server per data directory: two would not see each other's ended sessions."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(data / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as exc:
        raise ConfigError("--data-dir", f"{data} cannot be used: {exc.strerror}") from None
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


def _greet(settings: Settings, port: int, data: Path, journal: Journal | None) -> None:
    url = f"http://{_host_to_show(settings)}:{port}/mcp"
    print(f"zorivest-rpc {__version__} listens on {url} (2024-11-05 clients: /sse)", file=sys.stderr)
    tenancy = None if journal is None else journal.tenancy
    if tenancy is not None and tenancy.tenants.access:
        print("Callers send an access key as: Authorization: Bearer … (zorivest-rpc tenants grant)", file=sys.stderr)
    elif settings.no_auth:
        print("No key is asked for. Everybody on this machine can call.", file=sys.stderr)
    elif journal is not None:
        print(
            "Callers send a key of the backend as: Authorization: Bearer zrv_sk_… (zorivest-rpc keys)", file=sys.stderr
        )
    elif settings.api_key:
        print("Callers send the key of ZORIVEST_API_KEY as: Authorization: Bearer …", file=sys.stderr)
    else:
        print(f"Callers send the key in {data / 'serve.key'} as: Authorization: Bearer …", file=sys.stderr)
    sys.stderr.flush()
