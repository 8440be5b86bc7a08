"""Several clients behind one server: whether each can be used, which journals sleep, and who keeps their schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.tenants.config import Tenants, load_tenants, normalise_id
from zorivest_rpc.tenants.embedded import clean_environ, directory_of, left_behind

from .backend import Credential
from .line import Line, fail, ok, warn

__all__ = ["Aim", "aim_at", "check_tenants", "secrets_of"]


class Aim(NamedTuple):
    """What the checks of one backend look at, when they are to look at that of a tenant, and a line that says so."""

    settings: Settings
    environ: Mapping[str, str]
    line: Line
    credential: Credential | None = None  # of a backend elsewhere


def check_tenants(settings: Settings, environ: Mapping[str, str]) -> Iterator[Line]:
    """What can be said of them without asking one; nothing where no clients are named."""
    if not settings.tenant_sources:
        return
    from zorivest_rpc.cli.tenants.reading import known_toolsets

    try:
        tenants = load_tenants(settings, environ, known_toolsets(settings))
    except ConfigError as error:
        for line in str(error).splitlines():
            yield fail("tenants", line, "Correct it; zorivest-rpc tenants check tells whether that was all.")
        return
    assert tenants is not None
    clients, keys = len(tenants.tenants), len(tenants.access)
    yield ok("tenants", f"{tenants.source}: {clients} clients, {keys} access keys")
    for warning in tenants.warnings:
        yield warn("tenants", warning, "What is in that file opens the journals of others.")
    if not tenants.access:
        text = "there are no access keys, so over HTTP serve starts only on a loopback address with --no-auth"
        yield warn("tenants", text, "zorivest-rpc tenants grant --clients '*' --name desk-1")
    yield from _each(settings, tenants, environ)
    for id in left_behind(settings.data_dir, tenants.tenants):
        text = f"{directory_of(settings.data_dir, id)} is the journal of a client that is not configured"
        yield warn("tenants", text, "It stays as it is. Add the client again, or back it up and remove the directory.")


def _each(settings: Settings, tenants: Tenants, environ: Mapping[str, str]) -> Iterator[Line]:
    asleep = 0
    for id, tenant in sorted(tenants.tenants.items()):
        if not tenant.enabled:
            yield ok("tenants", f'"{id}" is disabled: no caller sees it')
        elif not tenant.is_configured(environ):
            text = f'"{id}" cannot be used: its key is not in {tenant.api_key_env}'
            yield warn("tenants", text, f"Set {tenant.api_key_env} where the server is started.")
        elif tenant.embedded:
            asleep += 1
            yield ok("tenants", f'"{id}": {_describe(directory_of(settings.data_dir, id))}')
    if asleep:
        text = "what the schedules of embedded clients have due while they sleep is done by serve alone, not over stdio"
        yield ok("tenants", text)


def _describe(directory: Path) -> str:
    from zorivest_rpc.embedded.disk.paths import DataDir
    from zorivest_rpc.embedded.locate import is_held
    from zorivest_rpc.embedded.wake import read_due

    place = DataDir(directory)
    if not place.bootstrap.exists():
        return "embedded; its first call makes the journal"
    if is_held(directory):
        return "embedded, running"
    due = read_due(place)
    if due is None:
        return "embedded, asleep; what its schedule has due is not known before it runs again"
    if due.next is None:
        return "embedded, asleep, with nothing scheduled"
    return f"embedded, asleep; its schedule has something due at {due.next:%Y-%m-%d %H:%M} UTC"


def secrets_of(settings: Settings, environ: Mapping[str, str], named: str | None) -> Iterator[str]:
    """What must not be printed: the credentials of all of them, and the key in the directory of one."""
    try:
        tenants = load_tenants(settings, environ)
    except ConfigError:
        return
    for tenant in () if tenants is None else tenants.tenants.values():
        yield from (secret for secret in (tenant.key_of(environ), tenant.authorization) if secret)
    if named is not None and (id := normalise_id(named)) is not None:
        try:
            yield (directory_of(settings.data_dir, id) / "api.key").read_text().strip()
        except (OSError, UnicodeDecodeError):
            return


def aim_at(settings: Settings, environ: Mapping[str, str], named: str) -> Aim:
    """The settings and the environment of one tenant; ConfigError where there is none of that name."""
    tenants = load_tenants(settings, environ)
    if tenants is None:
        raise ConfigError("--tenant", "no clients are named; give --tenants-file, or set CLIENTS_CONFIG")
    tenant = tenants.tenants.get(normalise_id(named) or "")
    if tenant is None:
        raise ConfigError("--tenant", f'unknown client "{named}"; there are {", ".join(sorted(tenants.tenants))}')
    line = ok("tenants", f'from here on: "{tenant.id}", {tenant.where}')
    if tenant.embedded:
        kept = clean_environ(environ, [each.api_key_env for each in tenants.tenants.values() if each.api_key_env])
        directory = str(directory_of(settings.data_dir, tenant.id))
        return Aim(settings._replace(data_dir=directory, api_url=None), kept, line)
    own = {name: value for name, value in environ.items() if name != "ZORIVEST_API_KEY"}
    fixed = {"Authorization": tenant.authorization, "client": tenant.client_header}
    headers = {name: value for name, value in fixed.items() if value is not None}
    credential = Credential(tenant.key_of(environ), tenant.api_key_env or "apiKey", headers)
    return Aim(settings._replace(api_url=tenant.where), own, line, credential)
