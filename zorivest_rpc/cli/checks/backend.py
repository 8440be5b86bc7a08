"""The backend, embedded or remote: reachable, unlocked by the key at hand, encrypted, its guard open.

Looking changes nothing: a backend that does not run is started only if asked for, and a locked one stays locked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from zorivest_rpc import __version__
from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError

from . import web
from .journal import Bootstrap, read_bootstrap
from .line import Line, fail, ok, warn
from .safekeeping import restore_step
from .surroundings import backend_port
from .web import PageAnswer, Place, ask, render_url

__all__ = ["check_embedded", "remote"]

_SKEW = 300.0
_GLANCE = 1.0
_SOON = 7 * 86_400.0


def check_embedded(
    settings: Settings, vault: Bootstrap | None, environ: Mapping[str, str], *, start: bool
) -> Iterator[Line]:
    from zorivest_rpc.embedded.locate import BackendStartError, find, find_or_start, stored_key

    data = Path(settings.data_dir)
    located = find(data)
    if located is None and start:
        try:
            located = find_or_start(
                data, idle_exit=settings.idle_exit, environ=environ, wakeable=bool(settings.tenant_sources)
            )
        except BackendStartError as error:
            yield fail("backend", str(error), f"Read {data / 'logs' / 'startup.log'}; the cause is in its last lines.")
            return
    yield from backend_port(environ, running=located is not None)
    if located is None:
        yield _not_running(data)
    else:
        started = "started" if located.started else "runs"
        vault = read_bootstrap(settings.data_dir)[1]  # a start may have made it
        yield ok("backend", f"embedded, {started} at {located.shown} (pid {located.pid})")
    yield from _neighbour("" if located is None else located.shown)
    key = stored_key(data, environ)
    yield from _check_stored_key(key, vault, data, environ)
    if located is None and vault is not None:
        yield ok("guard", "its state is in the journal; it can be asked when the backend runs")
    if located is not None:
        yield from _check_answer(located.address, Credential(key), "the embedded backend")
    yield from _encryption(data, vault)


def _neighbour(own: str) -> Iterator[Line]:
    """A Zorivest on the usual port that is not the backend in use: its journal may be the one that was meant."""
    from zorivest_rpc.serving.backend.neighbour import USUAL, is_own, is_zorivest

    if is_own(own, USUAL):
        return
    answer = ask(f"{USUAL}/api/v1/health", timeout=_GLANCE)
    if answer is not None and answer.status == 200 and is_zorivest(answer.body):
        text = f"a Zorivest listens on {USUAL}, and its journal is not the one in use"
        yield warn("backend", text, f"To work with it: --api-url {USUAL}, and its key in ZORIVEST_API_KEY.")


def _not_running(data: Path) -> Line:
    from zorivest_rpc.embedded.disk.filelock import FileLock
    from zorivest_rpc.embedded.disk.paths import DataDir

    lock = DataDir(data).process_lock
    if lock.exists():
        probe = FileLock(lock)
        try:
            free = probe.acquire()
        except OSError:
            free = True  # the data directory's own line tells
        finally:
            probe.release()
        if not free:
            pid = lock.read_text(errors="replace")[:20].strip()
            return fail(
                "backend",
                f"embedded: process {pid} holds {data} and does not answer",
                f"If it has only just started, wait; else end it: kill {pid}",
            )
    return ok("backend", "embedded, not running; the first call starts it (doctor --start tries now)")


def _check_stored_key(
    key: str | None, vault: Bootstrap | None, data: Path, environ: Mapping[str, str]
) -> Iterator[Line]:
    """Whether the key at hand is one of the vault's, told without opening it."""
    source = "ZORIVEST_API_KEY" if environ.get("ZORIVEST_API_KEY") else "the stored key"
    if vault is None:
        yield ok("key", f"{source} becomes the admin key" if key else "the first start makes one and stores it")
        return
    if key is None:
        where = "the keyring" if vault.key_source == "keyring" else str(data / "api.key")
        text = f"none at hand: neither ZORIVEST_API_KEY nor {where} has one"
        if vault.has_passphrase:
            yield fail("key", text, "zorivest-rpc keys create --label again --role admin --store (asks the passphrase)")
        else:
            yield fail("key", text, "Set ZORIVEST_API_KEY to a key of this journal; without one it stays closed.")
        return
    try:
        from zorivest_rpc.embedded.vault.crypto import fingerprint
    except ImportError:
        return  # the packages' own line tells
    standing = vault.standing(fingerprint(key), time.time())
    if standing == "valid":
        yield ok("key", f"{source} is one of this journal's")
        ends = vault.ends(fingerprint(key))
        if ends is not None and ends - time.time() < _SOON:
            text = f"{source} expires in {max(0.0, ends - time.time()) / 3600:.0f} hours"
            yield warn("key", text, "zorivest-rpc keys create --label next --role admin --store")
        return
    again = "Unset ZORIVEST_API_KEY to use the stored key" if source == "ZORIVEST_API_KEY" else "Set ZORIVEST_API_KEY"
    text = {"unknown": "is not one of this journal's", "revoked": "was revoked", "expired": "has expired"}[standing]
    yield fail("key", f"{source} {text}", f"{again}, or create another with a working one: zorivest-rpc keys create.")


def _encryption(data: Path, vault: Bootstrap | None) -> Iterator[Line]:
    from zorivest_rpc.embedded.disk.paths import DataDir

    if vault is None:
        return
    try:
        with open(DataDir(data).database, "rb") as file:
            plain = file.read(16) == b"SQLite format 3\x00"
    except FileNotFoundError:
        yield ok("journal", "no database file yet")
        return
    except OSError as exc:
        yield fail("journal", f"the database file cannot be read: {exc.strerror}", f"Look at the modes in {data}.")
        return
    if not plain and vault.encrypted:
        yield ok("journal", "encrypted (SQLCipher)")
    elif plain and vault.encrypted:
        text = "the database file is readable without a key, though the vault says it is encrypted"
        yield fail("journal", f"{text}: somebody replaced it", restore_step(data))
    else:
        yield warn(
            "journal",
            "NOT encrypted: SQLCipher was missing when it was made",
            "Keep its directory on an encrypted disk, or install sqlcipher3 and begin a new journal.",
        )


class Credential(NamedTuple):
    """What opens a backend elsewhere: a key, and the variable that has it; `headers` go along with every request, and
    may hold an Authorization in place of a key."""

    key: str | None
    variable: str = "ZORIVEST_API_KEY"
    headers: Mapping[str, str] = MappingProxyType({})

    @property
    def is_fixed(self) -> bool:
        return "Authorization" in self.headers


def remote(settings: Settings, environ: Mapping[str, str], credential: Credential | None = None) -> Iterator[Line]:
    from zorivest_rpc.serving.backend.http import normalise

    try:
        base = normalise(settings.api_url or "")
    except ConfigError as error:
        yield fail(
            "backend", str(error), "Correct --api-url or ZORIVEST_API_URL, or leave it out for the embedded one."
        )
        return
    given = Credential(environ.get("ZORIVEST_API_KEY")) if credential is None else credential
    if not given.key and not given.is_fixed:
        text = f"{given.variable} is not set, and a backend of its own has no other place for a key"
        yield fail("key", text, f"Create a key in Zorivest (Settings, API keys) and set {given.variable}.")
    yield from _check_answer(base, given, render_url(base), remote=True)


def _check_answer(base: Place, credential: Credential, name: str, *, remote: bool = False) -> Iterator[Line]:
    """What the backend says about itself."""
    health = ask(base, "/health", more=credential.headers)
    if health is None:
        yield fail("backend", f"{name} does not answer", "Start it, or correct the address; is a firewall in between?")
        return
    if not _speaks(health):
        text = f"{name} answers {health.status}, but not as a Zorivest backend"
        yield fail("backend", text, "Point --api-url to the REST API, such as http://localhost:8765 (not to /mcp).")
        return
    if remote:
        yield ok("backend", f"{name} answers, version {_word(health.body.get('version'))}")
    elif health.body.get("version") not in (None, __version__):
        text = f"the running backend is version {_word(health.body['version'])}, this is {__version__}"
        yield warn("backend", text, "Let it end by itself when idle, or end it; the next call starts the new one.")
    if remote and health.date is not None and abs(health.date - time.time()) > _SKEW:
        apart = f"{abs(health.date - time.time()) / 60:.0f} minutes"
        yield fail("clock", f"{apart} apart from {name}'s", "Set the clock; sessions and tokens end by it.")
    yield from _check_unlock(base, credential, health.body, name)
    yield from _guard(base, credential)


def _speaks(health: PageAnswer) -> bool:
    body = health.body
    return health.status == 200 and isinstance(body, dict) and ("version" in body or "database" in body)


def _check_unlock(base: Place, credential: Credential, health: Mapping[str, Any], name: str) -> Iterator[Line]:
    database = health.get("database")
    unlocked = database.get("unlocked") if isinstance(database, dict) else health.get("database_unlocked")
    if unlocked is False:
        yield ok("unlock", f"{name} is locked; the next call unlocks it with the key")
        return
    if credential.is_fixed:
        answer = ask(base, "/service/status", more=credential.headers)
        if answer is not None and answer.status not in (401, 403):
            yield ok("unlock", f"{name} takes the fixed Authorization")
        else:
            status = "nothing" if answer is None else str(answer.status)
            yield fail("unlock", f"{name} answered {status} to the fixed Authorization", "Correct it in the file.")
        return
    if not credential.key:
        return
    secret = {"api_key": credential.key}
    answer = ask(base, "/auth/unlock", secret, timeout=3 * web.PATIENCE, more=credential.headers)  # slow by design
    if answer is not None and answer.status == 200 and isinstance(answer.body, dict):
        yield ok("unlock", f"the key opens {name} as {_word(answer.body.get('role'))}")
        return
    status = "nothing" if answer is None else str(answer.status)
    next = {
        "401": f"The key is not one of this backend's: set {credential.variable} to one that is.",
        "403": "The key was revoked: create another (zorivest-rpc keys create).",
        "423": "Another process holds the database: end it, or wait.",
        "429": "Too many attempts: wait a minute.",
    }.get(status, "Look into the backend's log.")
    yield fail("unlock", f"{name} answered {status} to the key", next)


def _guard(base: Place, credential: Credential) -> Iterator[Line]:
    answer = ask(base, "/mcp-guard/status", more=credential.headers)
    if answer is None or answer.status != 200 or not isinstance(answer.body, dict):
        yield warn("guard", "its state cannot be learnt before the journal is unlocked", "Run doctor again afterwards.")
    elif answer.body.get("is_locked"):
        reason = _word(answer.body.get("lock_reason"))
        text = f"locked ({reason}) since {_word(answer.body.get('locked_at'))}: every guarded call is refused"
        yield fail("guard", text, "If that is not meant: zorivest-rpc unlock, which shows who locked it.")
    else:
        yield ok("guard", "open" + ("" if answer.body.get("is_enabled") else ", limits off"))


def _word(value: object) -> str:
    """Something another program said, short and on one line."""
    return " ".join(str(value).split())[:60] if value is not None else "unknown"
