"""What a provider is: a row of facts and the functions by which it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from ..values.symbols import Instrument
from ..vault.credentials import API_KEY, Credential
from .failures import Failure, Kind
from .outbound import Outbound, Reach
from .shapes import Filing, Fundamental, Hit, News, ProviderBar, ProviderQuote

__all__ = ["BarsAsk", "Link", "Proof", "Provider"]


class Link:
    """One provider as it may be used right now: where it is, with which key, within which limits."""

    def __init__(self, provider: Provider, outbound: Outbound, reach: Reach) -> None:
        self.provider = provider
        self.outbound = outbound
        self.reach = reach

    @property
    def name(self) -> str:
        return self.provider.name

    async def get(self, path: str, params: Mapping[str, str] | None = None, **options: Any) -> Any:
        """JSON from the provider's base address, or from `host`, another of its addresses."""
        base = self._base(options.pop("host", None))
        return await self.outbound.json(self.reach, base, path, params=params or {}, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        base = self._base(options.pop("host", None))
        return await self.outbound.json(self.reach, base, path, body=body, **options)

    def _base(self, host: str | None) -> str:
        name = self.provider.slug if host is None else f"{self.provider.slug}_{host}"
        default = self.provider.base if host is None else self.provider.hosts[host]
        return self.outbound.address(name, default)

    def failure(self, kind: Kind, detail: str, said: Any = None) -> Failure:
        """A failure of this provider, with its own words if it had some."""
        words = self.outbound.said(self.reach, said) if said else ""
        return Failure(self.name, kind, f"{detail}: {words}" if words else detail)

    def unknown(self, symbol: str) -> Failure:
        return self.failure(Kind.UNKNOWN, f"it does not know {symbol}")

    def odd(self) -> Failure:
        return self.failure(Kind.BAD_ANSWER, "its answer has an unexpected shape")


class BarsAsk(msgspec.Struct, frozen=True):
    """Which bars: `start` is included, `end` is not."""

    instrument: Instrument
    interval: str
    start: datetime
    end: datetime


Proof = Callable[[Link], Awaitable[bool]]
"""The test call: True when the answer proves that provider and key work, False when it is odd."""


@dataclass(frozen=True)
class Provider:
    """One provider. The auth fields say where the key goes; a capability without a function is absent."""

    name: str
    slug: str
    base: str
    signup_url: str
    rate_limit: int
    data_types: tuple[str, ...]
    test: Proof
    requires_key: bool = True
    credentials: tuple[Credential, ...] = (API_KEY,)  # what a person enters, in this order
    per_second: int | None = None
    headers: Callable[[str, str], dict[str, str]] = lambda key, secret: {}
    params: Callable[[str], dict[str, str]] = lambda key: {}
    hosts: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    quote: Callable[[Link, Instrument], Awaitable[ProviderQuote]] | None = None
    news: Callable[[Link, Instrument | None, int], Awaitable[list[News]]] | None = None
    search: Callable[[Link, str], Awaitable[list[Hit]]] | None = None
    filings: Callable[[Link, str, frozenset[str], int], Awaitable[list[Filing]]] | None = None
    bars: Callable[[Link, BarsAsk], Awaitable[list[ProviderBar]]] | None = None
    fundamentals: Callable[[Link, str, str], Awaitable[list[Fundamental]]] | None = None

    @property
    def needs_secret(self) -> bool:
        return any(credential.name == "api_secret" for credential in self.credentials)

    def answers_to(self, name: str) -> bool:
        """Whether a caller's word means this provider: its name, its slug, or another name it had."""
        word = _fold(name)
        return word in {_fold(known) for known in (self.name, self.slug, *self.aliases)}


def _fold(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())
