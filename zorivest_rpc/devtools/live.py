"""Questions to one connected page: sent to its own connection, answered by that page alone, and never left hanging."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import msgspec

from zorivest_rpc.devtools.frames import Cancel, Query, QueryType, Result
from zorivest_rpc.devtools.pages import Page
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["MOST_PENDING", "TIMEOUTS", "Live"]

MOST_PENDING: Final = 16
TIMEOUTS: Final[dict[QueryType, float]] = {"dom": 10.0, "page": 10.0, "a11y": 35.0}
_PAGE_GIVES_UP: Final[dict[QueryType, int]] = {"dom": 10_000, "page": 10_000, "a11y": 30_000}  # ms
AGAIN: Final = "Call again in a moment."


class _Pending(msgspec.Struct, eq=False):
    page: Page
    answer: asyncio.Future[Result]


class Live:
    """The questions of one tenant. `timeouts` are in seconds."""

    def __init__(self, timeouts: dict[QueryType, float] | None = None) -> None:
        self._timeouts = timeouts or TIMEOUTS
        self._pending: dict[str, _Pending] = {}

    @property
    def pending(self) -> int:
        return len(self._pending)

    async def ask(self, page: Page, type: QueryType, params: dict[str, Json]) -> Json:
        """What the page answers, unchecked; a ToolError where it cannot, will not, or goes away."""
        if len(self._pending) >= MOST_PENDING:
            raise ToolError("Too many live queries are running; try again.", code="too_many_queries", next=AGAIN)
        link, seconds = page.link, self._timeouts[type]
        if link is None:
            raise _went_away()
        q = secrets.token_hex(8)
        pending = self._pending[q] = _Pending(page, asyncio.get_running_loop().create_future())
        try:
            link.send(Query(q, type, params, min(_PAGE_GIVES_UP[type], int(seconds * 1000))))
            async with asyncio.timeout(seconds):
                result = await pending.answer
        except TimeoutError:
            self._cancel(page, q)
            words = f"The page did not answer within {seconds:g} s."
            raise ToolError(words, code="page_timeout", next=AGAIN) from None
        except asyncio.CancelledError:
            self._cancel(page, q)
            raise
        finally:
            del self._pending[q]
        if result.ok:
            return result.data
        raise _failure(result, params)

    def answer(self, page: Page, result: Result) -> bool:
        """Whether somebody waits for this; a late answer, and one of another page, are passed over."""
        pending = self._pending.get(result.q)
        if pending is None or pending.page is not page or pending.answer.done():
            return False
        pending.answer.set_result(result)
        return True

    def leave(self, page: Page) -> None:
        """The page is gone: what it was asked fails now."""
        for pending in self._pending.values():
            if pending.page is page and not pending.answer.done():
                pending.answer.set_exception(_went_away())

    def _cancel(self, page: Page, q: str) -> None:
        if page.link is not None:
            page.link.send(Cancel(q))


def _went_away() -> ToolError:
    return ToolError("The page went away before it answered.", code="page_gone", next=AGAIN)


def _failure(result: Result, params: dict[str, Json]) -> ToolError:
    code = result.error.code if result.error is not None else ""
    if code == "invalid_selector":
        selector = params.get("selector") or params.get("scope") or ""
        return ToolError(f"Invalid CSS selector: {selector}.", code="invalid_selector", next="Correct the selector.")
    # the page's own words stay out of an error: errors are ours, and read as such
    return ToolError("The page could not answer.", code="page_failed", next="Look at observe(errors) for the reason.")
