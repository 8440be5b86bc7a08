"""How each provider is set up: keys encrypted at rest, limits, the switch, and how the last test went."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from ..database import audit
from ..database.schema.market import market_providers
from ..vault.crypto import FieldCipher
from .failures import Failure, Kind
from .outbound import Outbound, Reach
from .provider import Link, Provider
from .providers import PROVIDERS

__all__ = [
    "DEFAULT_TIMEOUT",
    "Setup",
    "change",
    "link_to",
    "providers_configured",
    "read_all",
    "read_one",
    "remove_key",
    "stamp_test",
]

DEFAULT_TIMEOUT = 30
_ENTER_AGAIN = "its stored key cannot be decrypted; enter it again: zorivest-rpc connect provider {slug}"


class Setup(msgspec.Struct, frozen=True):
    """One provider as it is set up; the key stays encrypted until a request needs it."""

    provider: Provider
    is_enabled: bool
    rate_limit: int
    timeout: int
    encrypted_key: str | None = None
    encrypted_secret: str | None = None
    last_test_status: str = "untested"
    last_tested_at: datetime | None = None

    @property
    def has_key(self) -> bool:
        return bool(self.encrypted_key)

    @property
    def missing(self) -> list[str]:
        """What a person would still enter to connect it."""
        given = {"api_key": self.encrypted_key, "api_secret": self.encrypted_secret}
        return [one.name for one in self.provider.credentials if one.required and not given[one.name]]

    @property
    def usable(self) -> bool:
        return self.is_enabled and (self.has_key or not self.provider.requires_key)

    def describe(self) -> dict[str, Any]:
        """Everything that may be told; no key material in any form."""
        provider = self.provider
        return {
            "provider_name": provider.name,
            "name": provider.name,
            "display_name": provider.name,
            "slug": provider.slug,
            "is_enabled": self.is_enabled,
            "has_api_key": self.has_key,
            "has_key": self.has_key,
            "requires_key": provider.requires_key,
            "rate_limit": self.rate_limit,
            "timeout": self.timeout,
            "last_test_status": self.last_test_status,
            "last_tested_at": self.last_tested_at,
            "signup_url": provider.signup_url,
            "data_types": list(provider.data_types),
        }


def _setup(provider: Provider, row: Any) -> Setup:
    if row is None:  # a provider without a key works out of the box
        return Setup(provider, not provider.requires_key, provider.rate_limit, DEFAULT_TIMEOUT)
    return Setup(
        provider,
        row.is_enabled,
        row.rate_limit or provider.rate_limit,
        row.timeout or DEFAULT_TIMEOUT,
        row.encrypted_api_key,
        row.encrypted_api_secret,
        row.last_test_status,
        row.last_tested_at,
    )


def read_all(conn: Connection, providers: tuple[Provider, ...]) -> list[Setup]:
    rows = {row.provider_name: row for row in conn.execute(select(market_providers))}
    return [_setup(provider, rows.get(provider.name)) for provider in providers]


def read_one(conn: Connection, provider: Provider) -> Setup:
    row = conn.execute(select(market_providers).where(market_providers.c.provider_name == provider.name)).first()
    return _setup(provider, row)


def change(conn: Connection, provider: Provider, values: Mapping[str, Any], actor: str, now: datetime) -> None:
    """Write what was given and leave the rest; a new key switches the provider on unless told otherwise."""
    setup = read_one(conn, provider)
    new = dict(values)
    if new.get("encrypted_api_key"):
        new.setdefault("is_enabled", True)
        new.update(last_test_status="untested", last_tested_at=None)
    _write(conn, provider, setup, new, now)
    told = sorted("api_key" if name == "encrypted_api_key" else name for name in values if "secret" not in name)
    audit.record(conn, actor, "provider.configure", "market_provider", provider.name, changed=told)


def remove_key(conn: Connection, provider: Provider, actor: str, now: datetime) -> None:
    """Delete the key for good and switch the provider off."""
    gone = {
        "encrypted_api_key": None,
        "encrypted_api_secret": None,
        "is_enabled": False,
        "last_test_status": "untested",
        "last_tested_at": None,
    }
    _write(conn, provider, read_one(conn, provider), gone, now)
    audit.record(conn, actor, "provider.disconnect", "market_provider", provider.name)


def stamp_test(conn: Connection, provider: Provider, status: str, now: datetime) -> None:
    _write(conn, provider, read_one(conn, provider), {"last_test_status": status, "last_tested_at": now}, now)


def _write(conn: Connection, provider: Provider, setup: Setup, values: Mapping[str, Any], now: datetime) -> None:
    name = market_providers.c.provider_name
    done = conn.execute(market_providers.update().where(name == provider.name).values(**values, updated_at=now))
    if not done.rowcount:
        first = {"is_enabled": setup.is_enabled, "created_at": now, "updated_at": now, **values}
        conn.execute(market_providers.insert().values(provider_name=provider.name, **first))


def link_to(setup: Setup, outbound: Outbound, cipher: FieldCipher, patience: float | None = None) -> Link:
    """A way to ask the provider, with its key decrypted for just that; Failure if it must not or cannot be asked."""
    provider = setup.provider
    if provider.requires_key and not setup.has_key:
        raise Failure(provider.name, Kind.NO_KEY, "no API key configured")
    try:
        key = cipher.decrypt(setup.encrypted_key or "")
        secret = cipher.decrypt(setup.encrypted_secret or "")
    except ValueError:
        raise Failure(provider.name, Kind.NO_KEY, _ENTER_AGAIN.format(slug=provider.slug)) from None
    if provider.needs_secret and not secret:
        raise Failure(provider.name, Kind.NO_KEY, "no API secret configured; it needs a key and a secret")
    timeout = float(setup.timeout) if patience is None else min(float(setup.timeout), patience)
    reach = Reach(
        provider.name,
        setup.rate_limit,
        timeout,
        tuple(filter(None, (key, secret))),
        provider.per_second,
        provider.headers(key, secret),
        provider.params(key) if key else {},
    )
    return Link(provider, outbound, reach)


def providers_configured() -> Select[int]:
    """How many providers can be asked: those with a key, and those that need none, unless they were switched off."""
    table = market_providers
    free = [provider.name for provider in PROVIDERS if not provider.requires_key]
    named = table.c.provider_name.in_(free)
    keyed = select(func.count()).where(table.c.is_enabled, table.c.encrypted_api_key.is_not(None), ~named)
    off = select(func.count()).where(~table.c.is_enabled, named)
    return select(keyed.scalar_subquery() + len(free) - off.scalar_subquery())
