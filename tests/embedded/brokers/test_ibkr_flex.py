"""The Flex Web Service: a request, a wait, a statement, and its error codes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.embedded.brokers.conftest import trades_of
from tests.embedded.conftest import Caller
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Sequence, Upstream, raw, status

SEND, GET = "/ibkr_flex/SendRequest", "/ibkr_flex/GetStatement"
TOKEN = "123456789012345678901234"


def xml(text: str) -> Any:
    return raw(text.encode(), "text/xml")


ACCEPTED = xml(
    "<FlexStatementResponse timestamp='09 March, 2026 10:00 AM EST'><Status>Success</Status>"
    "<ReferenceCode>1234567890</ReferenceCode><Url>https://evil.example/GetStatement</Url></FlexStatementResponse>"
)


def failed(code: int, message: str, status: str = "Fail") -> Any:
    return xml(
        f"<FlexStatementResponse timestamp='x'><Status>{status}</Status><ErrorCode>{code}</ErrorCode>"
        f"<ErrorMessage>{message}</ErrorMessage></FlexStatementResponse>"
    )


WAITING = failed(1019, "Statement generation in progress. Please try again shortly.", "Warn")
STATEMENT = xml(
    """<FlexQueryResponse queryName="Trades" type="AF"><FlexStatements count="1">
<FlexStatement accountId="U1234567" fromDate="20260309" toDate="20260309"><Trades>
<Trade accountId="U1234567" currency="USD" assetCategory="STK" symbol="AAPL" dateTime="20260309;103000" quantity="100"
 tradePrice="188.5" ibCommission="-1.05" buySell="BUY" ibExecID="0000e0d5.1" ibOrderID="77" multiplier="1"/>
<Trade accountId="U1234567" currency="USD" assetCategory="STK" symbol="AAPL" dateTime="20260309;113000" quantity="-40"
 tradePrice="190" ibCommission="-1" buySell="SELL" ibExecID="0000e0d5.2" multiplier="1"/>
</Trades></FlexStatement></FlexStatements></FlexQueryResponse>"""
)


@pytest.fixture
async def flex(owner: Caller, upstream: Upstream) -> Upstream:
    body = {"api_key": TOKEN, "query_id": "987654", "account_id": "U1234567"}
    await owner.expect(200, "PUT", "/brokers/ibkr_pro", body)
    upstream.answers |= {SEND: ACCEPTED, GET: STATEMENT}
    return upstream


async def test_a_statement_becomes_trades(owner: Caller, flex: Upstream) -> None:
    found = await owner.expect(200, "POST", "/brokers/ibkr_pro/sync")
    assert (found["status"], found["imported"], found["errors"]) == ("success", 2, [])
    bought, sold = await trades_of(owner)
    assert (bought["exec_id"], bought["commission"], bought["broker"]) == ("0000e0d5.1", 1.05, "ibkr_pro")
    assert bought["time"] == "2026-03-09T14:30:00+00:00"
    assert sold["action"] == "SLD"
    send, get = flex.asked
    assert (send.path, send.query) == (SEND, {"t": TOKEN, "q": "987654", "v": "3"})
    assert (get.path, get.query) == (GET, {"t": TOKEN, "q": "1234567890", "v": "3"})
    again = await owner.expect(200, "POST", "/brokers/ibkr_pro/sync")
    assert (again["imported"], again["duplicates_skipped"]) == (0, 2)


async def test_a_statement_in_the_making_is_waited_for(owner: Caller, flex: Upstream, time: Time) -> None:
    flex.answers[GET] = Sequence(WAITING, WAITING, STATEMENT)
    assert (await owner.expect(200, "POST", "/brokers/ibkr_pro/sync"))["imported"] == 2
    assert {2.0, 4.0} <= set(time.slept)


async def test_a_request_that_cannot_be_taken_yet_is_made_again(owner: Caller, flex: Upstream, time: Time) -> None:
    busy = failed(1009, "The server is under heavy load. Please try again shortly.")
    flex.answers[SEND] = Sequence(
        busy, failed(1001, "Statement could not be generated at this time.", "Warn"), ACCEPTED
    )
    assert (await owner.expect(200, "POST", "/brokers/ibkr_pro/sync"))["imported"] == 2
    assert flex.paths() == [SEND, SEND, SEND, GET]


async def test_only_the_period_that_was_asked_for_is_imported(owner: Caller, flex: Upstream) -> None:
    body = {"start": "2026-03-09T15:00:00+00:00", "end": "2026-03-09"}
    found = await owner.expect(200, "POST", "/brokers/ibkr_pro/sync", body)
    assert (found["status"], found["imported"]) == ("success", 1)
    assert [trade["exec_id"] for trade in await trades_of(owner)] == ["0000e0d5.2"]
    assert (flex.asked[0].query["fd"], flex.asked[0].query["td"]) == ("20260309", "20260309")
    assert (await owner.expect(200, "POST", "/brokers/ibkr_pro/sync"))["imported"] == 1


async def test_a_statement_that_is_never_ready_is_given_up(owner: Caller, flex: Upstream) -> None:
    flex.answers[GET] = WAITING
    refused = await owner.expect(503, "POST", "/brokers/ibkr_pro/sync")
    assert (refused["error"], "sync again" in refused["detail"]) == ("timeout", True)


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (failed(1012, f"Token {TOKEN} has expired."), 502, "invalid_key"),
        (failed(1015, "Token is invalid."), 502, "invalid_key"),
        (failed(1014, "Query is invalid."), 502, "bad_answer"),
        (failed(1010, "Legacy Flex Queries are no longer supported."), 502, "bad_answer"),
        (failed(1013, "IP restriction."), 502, "bad_answer"),
        (failed(1018, "Too many requests have been made from this token."), 429, "rate_limited"),
        (raw(b"not xml"), 502, "bad_answer"),
        (xml("<a/>"), 502, "bad_answer"),
        (
            xml(
                '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><FlexStatementResponse>&b;</FlexStatementResponse>'
            ),
            502,
            "bad_answer",
        ),
    ],
    ids=["expired", "invalid", "query", "legacy", "address", "too many", "text", "odd", "entity"],
)
async def test_error_codes_are_told_as_what_they_are(
    answer: Any, code: int, reason: str, owner: Caller, flex: Upstream
) -> None:
    flex.answers[SEND] = answer
    refused = await owner.expect(code, "POST", "/brokers/ibkr_pro/sync")
    assert refused["reason"] == reason
    assert TOKEN not in str(refused)


async def test_the_token_is_sent_in_an_address_and_in_no_log(
    owner: Caller, flex: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await owner.expect(200, "POST", "/brokers/ibkr_pro/sync")
    for answer, code in ((failed(1012, f"Token {TOKEN} has expired."), 502), (status(500, {"message": TOKEN}), 502)):
        flex.answers[SEND] = answer
        await owner.expect(code, "POST", "/brokers/ibkr_pro/sync")
    assert all(asked.query["t"] == TOKEN for asked in flex.asked)
    assert any(record.name.startswith("zorivest") for record in caplog.records)
    assert not any(TOKEN in f"{record.getMessage()} {record.args} {record.exc_text}" for record in caplog.records)


@pytest.mark.parametrize("body", ["<FlexQueryResponse><Trade", "<html/>", ""], ids=["cut short", "html", "empty"])
async def test_a_statement_that_cannot_be_read_is_refused_whole(body: str, owner: Caller, flex: Upstream) -> None:
    flex.answers[GET] = xml(body)
    refused = await owner.expect(502, "POST", "/brokers/ibkr_pro/sync")
    assert "cannot be read" in refused["detail"]
    assert await trades_of(owner) == []
