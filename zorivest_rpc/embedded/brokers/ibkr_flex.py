"""Interactive Brokers through its Flex Web Service: ask for a statement, wait until it is made, read its trades.

The service answers the first request with a reference and an address. Only the reference is used: the token is sent to
the address that was configured and to no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from ..imports.broker import import_broker_file
from ..imports.drafts import ImportRefused
from ..market.failures import Failure, Kind
from .pulled import SECONDS, BrokerLink, Pulled, PullWindow, Source, within

__all__ = ["pull"]

PATIENCE = 45.0
_FIRST_WAIT, _LONGEST_WAIT = 2.0, 8.0
_WAITING = frozenset({"1001", "1004", "1005", "1006", "1007", "1008", "1009", "1019", "1021"})
_BAD_TOKEN = frozenset({"1012", "1015"})  # expired, invalid; the others say in their own words what is wrong
_TOO_MANY = frozenset({"1018"})


async def pull(link: BrokerLink, wanted: PullWindow) -> Pulled:
    assert link.account_id is not None  # a broker is configured only with one
    reference = await _request(link, wanted)
    data = await _statement(link, reference)
    hints = wanted.hints(link.account_id, broker="ibkr")
    try:
        found = await asyncio.to_thread(import_broker_file, data, hints, expired=within(SECONDS))
    except ImportRefused as exc:
        raise Failure(link.reach.name, Kind.BAD_ANSWER, f"its statement cannot be read: {exc.what}") from None
    return Pulled((Source(found),), link.account_id, cursor=found.date_to)


async def _request(link: BrokerLink, wanted: PullWindow) -> str:
    params = {"q": link.options["query_id"], "v": "3"}
    if wanted.start is not None and wanted.last_day is not None:
        params |= {"fd": wanted.start.strftime("%Y%m%d"), "td": wanted.last_day.strftime("%Y%m%d")}
    told: dict[str, str] = {}

    async def request() -> bool:
        nonlocal told
        told = _fields(link, (await link.outbound.ask(link.reach, link.base, "/SendRequest", params=params)).body)
        return told.get("ErrorCode") not in _WAITING

    await _until(link, request)
    if told.get("Status") != "Success":
        raise _refusal(link, told)
    reference = told.get("ReferenceCode", "")
    if not reference.isalnum():
        raise link.odd("answers")
    return reference


async def _statement(link: BrokerLink, reference: str) -> bytes:
    body = b""

    async def fetch() -> bool:
        nonlocal body
        params = {"q": reference, "v": "3"}
        body = (await link.outbound.ask(link.reach, link.base, "/GetStatement", params=params)).body
        if b"<FlexStatementResponse" not in body[:1000]:
            return True
        told = _fields(link, body)
        if told.get("ErrorCode") not in _WAITING:
            raise _refusal(link, told)
        return False

    await _until(link, fetch)
    return body


async def _until(link: BrokerLink, done: Callable[[], Awaitable[bool]]) -> None:
    """Ask again, less and less often, while the service says that it is not ready."""
    ends, wait = link.outbound.clock() + PATIENCE, _FIRST_WAIT
    while not await done():
        if link.outbound.clock() + wait > ends:
            raise Failure(link.reach.name, Kind.TIMEOUT, "the statement is not ready yet; sync again in a minute")
        await link.outbound.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT)


def _fields(link: BrokerLink, body: bytes) -> dict[str, str]:
    """The elements of the service's own small document."""
    try:
        root = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, RecursionError):
        raise Failure(link.reach.name, Kind.BAD_ANSWER, "it answered with something that is not XML") from None
    return {child.tag: (child.text or "").strip() for child in root}


def _refusal(link: BrokerLink, told: dict[str, str]) -> Failure:
    code, said = told.get("ErrorCode", ""), link.outbound.said(link.reach, told.get("ErrorMessage", "no reason given"))
    if code in _BAD_TOKEN:
        return Failure(link.reach.name, Kind.BAD_KEY, f"it does not accept the token: {said}")
    if code in _TOO_MANY:
        return Failure(link.reach.name, Kind.RATE_LIMITED, said, retry_after=60.0)
    return Failure(link.reach.name, Kind.BAD_ANSWER, f"it refuses the statement ({code[:8]}): {said}")
