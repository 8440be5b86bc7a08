"""The review checklist: brokers and bank accounts side by side, how old each figure is, and what to do about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend, Request
from zorivest_rpc.serving.tools.kit import Kit, bad_answer, entries

__all__ = ["AccountReview"]

_DAY: Final = 86_400.0
_ONLY: Final = {"broker_only": "broker", "bank_only": "bank"}


class AccountReview:
    """`now` is the time of day, in seconds since the epoch."""

    def __init__(self, kit: Kit, now: Callable[[], float] = time.time) -> None:
        self._kit = kit
        self._now = now

    def handlers(self) -> dict[str, Handler]:
        return {"get_account_review_checklist": self.checklist}

    async def checklist(self, call: Call) -> Outcome:
        """One source that fails leaves the other half usable; only without both is there nothing to show."""
        arguments = self._kit.arguments(call)
        scope, days = arguments["scope"], arguments["stale_threshold_days"]
        backend = self._kit.backend_for(call)
        brokers, banks = await asyncio.gather(
            _fetch_list(backend, "/brokers"), _fetch_list(backend, "/banking/accounts")
        )
        if isinstance(brokers, ToolError) and isinstance(banks, ToolError):
            raise brokers
        desktop = self._kit.desktop(call)
        accounts = [*self._brokers(brokers, days, desktop), *self._banks(banks, days, desktop)]
        only = _ONLY.get(scope)
        shown = [
            account
            for account in accounts
            if (only is None or account["type"] == only) and (scope != "stale_only" or account["is_stale"])
        ]
        given: dict[str, Json] = {
            "review_scope": scope,
            "stale_threshold_days": days,
            "total_accounts": len(accounts),
            "accounts_needing_review": len(shown),
            "accounts": shown,
        }
        notes = [
            f"The {what} are missing from this list: {found.text}"
            for what, found in (("brokers", brokers), ("bank accounts", banks))
            if isinstance(found, ToolError)
        ]
        return self._kit.give(call, given, message=" ".join(notes) or None)

    def _brokers(self, found: list[dict[str, Json]] | ToolError, days: float, desktop: bool) -> list[dict[str, Json]]:
        rows = []
        for entry in [] if isinstance(found, ToolError) else found:
            id = str(entry.get("broker_id", ""))
            stale = self._is_stale(entry.get("last_sync"), days)
            if entry.get("configured") is False:
                where = "in the desktop app" if desktop else f"with zorivest-rpc connect broker {id}"
                action = f'Broker "{id}" is not configured; connect it {where} before a sync.'
            elif stale:
                action = f'Call sync_broker with broker_id "{id}".'
            else:
                action = "None; the last sync is recent enough."
            rows.append(_row("broker", id, entry, "last_sync", stale, action))
        return rows

    def _banks(self, found: list[dict[str, Json]] | ToolError, days: float, desktop: bool) -> list[dict[str, Json]]:
        rows = []
        for entry in [] if isinstance(found, ToolError) else found:
            id = str(entry.get("account_id", ""))
            stale = self._is_stale(entry.get("last_updated"), days)
            action = "None; the balance is recent enough."
            if stale:
                by_hand = "Update the balance by hand in the desktop app, or call" if desktop else "Call"
                action = f'{by_hand} import_bank_statement with account_id "{id}".'
            rows.append(_row("bank", id, entry, "last_updated", stale, action))
        return rows

    def _is_stale(self, at: Json, days: float) -> bool:
        """Strictly older than the threshold; what has no readable date counts as stale."""
        moment = _moment(at)
        return moment is None or self._now() - moment > days * _DAY


async def _fetch_list(backend: Backend, path: str) -> list[dict[str, Json]] | ToolError:
    try:
        reply = await backend.ask(Request("GET", path))
    except ToolError as error:
        return error
    if not isinstance(reply.value, list) and not (isinstance(reply.value, dict) and "items" in reply.value):
        return bad_answer(path, reply, "a list")
    return entries(reply.value)


def _row(kind: str, id: str, entry: dict[str, Json], dated: str, stale: bool, action: str) -> dict[str, Json]:
    name, at = entry.get("name"), entry.get(dated)
    return {
        "type": kind,
        "id": id,
        "name": name if isinstance(name, str) and name else id,
        dated: at if isinstance(at, str) else None,
        "is_stale": stale,
        "suggested_action": action,
    }


def _moment(at: Json) -> float | None:
    """Seconds since the epoch; a time without an offset is UTC."""
    if not isinstance(at, str):
        return None
    try:
        moment = datetime.fromisoformat(at.strip())
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
