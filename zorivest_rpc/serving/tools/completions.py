"""Values for the arguments of prompts and the variables of resource templates: toolsets, tickers, accounts, trades.

They are a convenience while the user types: a backend that is slow, away or locked by its guard just offers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.offer import Completion
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.backend.interface import Backend, Request
from zorivest_rpc.serving.tools.kit import entries
from zorivest_rpc.serving.tools.prompts import ARGUMENTS
from zorivest_rpc.serving.tools.resources import IMAGES, TOOLSET

__all__ = ["JournalCompletions", "has_completions"]

_SECONDS: Final = 1.5
_RECENT: Final = 500  # trades that are looked at
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {TOOLSET: ("toolset",), IMAGES: ("image_id",)}

Choices: TypeAlias = Iterable[tuple[str, str]]
"""(value, other words to find it by)."""


def has_completions(kind: str, name: str) -> bool:
    """Whether this is a prompt or a template of ours."""
    return name in (ARGUMENTS if kind == "prompt" else _TEMPLATES)


class JournalCompletions:
    """`refusal` tells why a session may not call a tool; what the tool would not show is not offered either."""

    def __init__(
        self,
        backend_of: Callable[[Session], Backend],
        toolsets: Callable[[], Sequence[str]],
        refusal: Callable[[Session, str], ToolError | None],
        *,
        seconds: float = _SECONDS,
    ) -> None:
        self._backend_of = backend_of
        self._toolsets = toolsets
        self._refusal = refusal
        self._seconds = seconds

    async def __call__(
        self, session: Session, kind: str, name: str, argument: str, value: str, others: dict[str, str]
    ) -> Completion | None:
        known = (ARGUMENTS if kind == "prompt" else _TEMPLATES).get(name)
        if known is None:
            return None
        if argument not in known:
            return Completion([])
        return Completion(_matching(await self._choices(session, argument), value))

    async def _choices(self, session: Session, argument: str) -> Choices:
        if argument == "toolset":
            return [(name, "") for name in self._toolsets()]
        if argument == "direction":
            return [("LONG", ""), ("SHORT", "")]
        source = {
            "ticker": ("list_trades", self._tickers),
            "exec_id": ("list_trades", self._trades),
            "account_id": ("list_bank_accounts", self._accounts),
        }.get(argument)
        if source is None or self._refusal(session, source[0]) is not None:
            return []
        return await self._ask_unless_locked(self._backend_of(session), source[1])

    async def _ask_unless_locked(self, backend: Backend, ask: Callable[[Backend], Awaitable[Choices]]) -> Choices:
        """The guard's state is read, not asked for permission: that would count every key stroke."""
        try:
            async with asyncio.timeout(self._seconds):
                guard, choices = await asyncio.gather(self._value(backend, "/mcp-guard/status"), ask(backend))
        except TimeoutError:
            return []
        return choices if isinstance(guard, dict) and guard.get("is_locked") is False else []

    async def _tickers(self, backend: Backend) -> Choices:
        trades, plans = await asyncio.gather(
            self._value(backend, "/trades", limit=_RECENT), self._value(backend, "/trade-plans", limit=100)
        )
        symbols = [_symbol(entry.get("symbol") or entry.get("instrument")) for entry in entries(trades)]
        symbols += [_symbol(entry.get("ticker")) for entry in entries(plans)]
        return [(symbol, "") for symbol in symbols]

    async def _trades(self, backend: Backend) -> Choices:
        trades = entries(await self._value(backend, "/trades", limit=_RECENT))
        return [(_text(entry, "exec_id"), _text(entry, "instrument")) for entry in trades]

    async def _accounts(self, backend: Backend) -> Choices:
        found = await asyncio.gather(self._value(backend, "/accounts"), self._value(backend, "/banking/accounts"))
        return [(_text(entry, "account_id"), _text(entry, "name")) for rows in found for entry in entries(rows)]

    async def _value(self, backend: Backend, path: str, **query: Json) -> Json:
        try:
            return (await backend.ask(Request("GET", path, query=query or None, timeout=self._seconds))).value
        except ToolError:
            return None


def _matching(choices: Choices, typed: str) -> list[str]:
    """Each value once, in the order of the choices: those that begin like it before those found by other words."""
    wanted = typed.strip().casefold()
    first: dict[str, None] = {}
    later: dict[str, None] = {}
    for value, words in choices:
        if not value:
            continue
        if value.casefold().startswith(wanted):
            first[value] = None
        elif wanted in words.casefold():
            later[value] = None
    return [*first, *(value for value in later if value not in first)]


def _symbol(value: Json) -> str:
    """The first word: `SPY STK (USD)` is SPY."""
    return value.split()[0].upper() if isinstance(value, str) and value.strip() else ""


def _text(entry: dict[str, Json], name: str) -> str:
    found = entry.get(name)
    return found if isinstance(found, str) else ""
