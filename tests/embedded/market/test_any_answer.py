"""Whatever JSON a provider or broker sends, its adapter gives shapes or a failure, and nothing else."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.embedded.market import shapes
from zorivest_rpc.embedded.brokers import alpaca as alpaca_broker
from zorivest_rpc.embedded.brokers import tradier as tradier_broker
from zorivest_rpc.embedded.brokers.pulled import BrokerLink, PullWindow
from zorivest_rpc.embedded.imports.rows import RowRefused
from zorivest_rpc.embedded.market.answers import render
from zorivest_rpc.embedded.market.failures import Failure
from zorivest_rpc.embedded.market.outbound import Outbound, Reach
from zorivest_rpc.embedded.market.provider import BarsAsk, Link
from zorivest_rpc.embedded.market.providers import alpaca, edgar, find_provider, finnhub, openfigi, yahoo
from zorivest_rpc.embedded.market.shapes import ticker_of
from zorivest_rpc.embedded.rest.routing import reply

ASK = BarsAsk(ticker_of("AAPL"), "1d", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 20, tzinfo=UTC))
WANTED = PullWindow(None, None, "America/New_York")

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["NA", "1e400", "-0", "2026-13-45", "AAPL", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            found += places(item, (*path, place))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    value = copy.deepcopy(value)
    inner = value
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = new
    return value


class Silent(Outbound):
    """A way out on which everything answers the same."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    async def json(self, *args: Any, **options: Any) -> Any:
        return self._answer


REACH = Reach("Somebody", 10, 1.0)
Call = Callable[[Link], Coroutine[Any, Any, Any]]


def call(name: str, function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
    provider = find_provider(name)
    assert provider is not None

    def run(answer: Any) -> Any:
        link = Link(provider, Silent(answer), REACH)
        return asyncio.run(_awaited(function(link, *args)))

    return run


async def _awaited(value: Any) -> Any:
    return await value


def broker(function: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
    def run(answer: Any) -> Any:
        return asyncio.run(_awaited(function(BrokerLink(Silent(answer), REACH, ""), *args)))

    return run


def capability(name: str, data_type: str, *args: Any) -> Callable[[Any], Any]:
    provider = find_provider(name)
    assert provider is not None
    return call(name, getattr(provider, data_type), *args)


AAPL = ASK.instrument
CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "yahoo quote": (capability("yahoo", "quote", AAPL), shapes.CHART),
    "yahoo bars": (call("yahoo", yahoo.bars, ASK), shapes.CHART),
    "yahoo search": (capability("yahoo", "search", "a"), shapes.YAHOO_SEARCH),
    "yahoo news": (capability("yahoo", "news", AAPL, 5), shapes.YAHOO_SEARCH),
    "alpha vantage quote": (capability("alpha_vantage", "quote", AAPL), shapes.GLOBAL_QUOTE),
    "alpha vantage search": (capability("alpha_vantage", "search", "a"), shapes.BEST_MATCHES),
    "polygon quote": (capability("polygon", "quote", AAPL), shapes.POLYGON_PREV),
    "polygon bars": (capability("polygon", "bars", ASK), shapes.POLYGON_PREV),
    "finnhub quote": (capability("finnhub", "quote", AAPL), shapes.FINNHUB_QUOTE),
    "finnhub news": (capability("finnhub", "news", AAPL, 5), shapes.FINNHUB_NEWS),
    "finnhub lookup": (call("finnhub", finnhub.lookup, "x"), {"count": 1, "result": [{"symbol": "A"}]}),
    "fmp search": (capability("fmp", "search", "a"), shapes.FMP_SEARCH),
    "eodhd quote": (capability("eodhd", "quote", AAPL), shapes.EODHD_QUOTE),
    "eodhd bars": (capability("eodhd", "bars", ASK), shapes.EODHD_DAY),
    "ninjas quote": (capability("api_ninjas", "quote", AAPL), shapes.NINJAS_QUOTE),
    "benzinga news": (capability("benzinga", "news", AAPL, 5), shapes.BENZINGA_NEWS),
    "sec api filings": (capability("sec_api", "filings", "AAPL", frozenset(), 5), shapes.SEC_API_FILINGS),
    "edgar tickers": (call("edgar", edgar.filings, "AAPL", frozenset(), 5), shapes.COMPANY_TICKERS),
    "alpaca bars": (call("alpaca", alpaca.bars, ASK), {"bars": [shapes.ALPACA_BAR], "next_page_token": None}),
    "tradier bars": (capability("tradier", "bars", ASK), {"history": {"day": [shapes.TRADIER_DAY]}}),
    "openfigi": (call("openfigi", openfigi.lookup, [("isin", "US0378331005")]), [{"data": [shapes.FIGI]}]),
    "alpaca positions": (broker(alpaca_broker.positions), [{"symbol": "AAPL", "qty": "5", "side": "long"}]),
    "tradier positions": (
        broker(tradier_broker.positions),
        {
            "profile": {"account": {"account_number": "V1"}},
            "positions": {"position": {"symbol": "A", "quantity": 1, "cost_basis": 2}},
        },
    ),
    "alpaca pull": (broker(alpaca_broker.pull, WANTED), {"account_number": "A1", "equity": "5"}),
    "tradier pull": (
        broker(tradier_broker.pull, WANTED),
        {
            "profile": {"account": {"account_number": "V1"}},
            "balances": {"total_equity": 1},
            "positions": "null",
            "history": {
                "event": {
                    "type": "trade",
                    "date": "2026-03-09T00:00:00Z",
                    "trade": {"symbol": "A", "quantity": -1, "price": 2, "commission": 1},
                }
            },
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_answer_becomes_shapes_or_a_failure(name: str, data: st.DataObject) -> None:
    run, shape = CASES[name]
    where = data.draw(st.sampled_from(places(shape)))
    answer = replaced(shape, where, data.draw(anything))
    try:
        value = run(answer)
    except (Failure, RowRefused):
        return
    rows = value if isinstance(value, list) else [value]
    for row in rows:
        if isinstance(row, msgspec.Struct) and not hasattr(row, "sources"):
            for field in msgspec.structs.asdict(row).values():
                assert not isinstance(field, Decimal) or field.is_finite()
            reply(render(row, stale=False, age=0))  # it can be sent
            msgspec.json.encode(row)  # and kept
