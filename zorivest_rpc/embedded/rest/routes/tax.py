"""`/tax`: lots, wash sales, estimates and payments, each answer from lots that are in step with the trades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from sqlalchemy import Connection

from ...errors import BadRequest, Refusal
from ...journal.expiry import settle_due
from ...tax.assumptions import DATES, about_carryover, about_installments, about_section_1256, about_spouse
from ...tax.carryover import Carryover, carry_into, with_carryover
from ...tax.dates import trade_date
from ...tax.estimate import annual_estimate, year_gains
from ...tax.harvest import scan_harvest
from ...tax.lot import Lot
from ...tax.model import DISCLAIMER, CostBasisMethod, EstimationMethod, FilingStatus, Quarter, TaxError, TaxProfile
from ...tax.quarterly import TaxPayment, income_by_period, quarterly_estimate, record_payment
from ...tax.simulate import SaleRequest, simulate_sale
from ...tax.stored import payments as tax_payments
from ...tax.stored import profiles as tax_profiles
from ...tax.stored import reading as tax_reading
from ...tax.stored import sync as tax_store
from ...tax.stored.money import tell_foreign
from ...tax.stored.prices import ask_anew, known_prices
from ...tax.stored.profiles import Profiles
from ...tax.stored.sync import LotRules
from ...tax.stored.years import YearResults
from ...tax.summary import summarize_year
from ...tax.symbols import is_expired, is_section_1256
from ...tax.views import list_lots
from ...tax.washes import find
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import fill_aliases, identifier
from ...values.kinds import AssetClass
from ...values.symbols import parse_instrument
from ..routing import READ, WRITE, RestCall, Route, reply
from .market_data import market_of
from .tax_profiles import FIRST_YEAR, LAST_YEAR, member

__all__ = ["ROUTES"]


_HINT = "There are no trades yet; record fills with create_trade or load a statement with import_broker_csv."
_STATUSES = ("open", "closed", "all")
_SORTS = ("date_acquired", "acquired_date", "cost_basis", "gain_loss", "holding_period")


class Ground(NamedTuple):
    """What an answer stands on, all of one moment."""

    conn: Connection
    today: date
    profiles: Profiles
    rules: LotRules
    years: YearResults

    @classmethod
    def at(cls, conn: Connection, now: datetime, years: YearResults) -> Ground:
        profiles = tax_profiles.load(conn, now)
        return cls(conn, trade_date(now), profiles, tax_store.rules_of(conn, profiles), years)

    def year(self, year: int | None) -> TaxProfile:
        """The profile of a year, with the losses that are carried into it."""
        wanted = self.today.year if year is None else year
        return with_carryover(self.profiles.of(wanted), self.read_carryover(wanted))

    def read_carryover(self, year: int) -> Carryover:
        results = self.years.before(year, self.conn, self.rules, self.profiles.of)
        return carry_into(year, results, self.profiles.of, self.profiles.years)

    def about_year(self, profile: TaxProfile, lots: Iterable[Lot]) -> list[str]:
        """What an answer about a whole year takes for granted, of its contracts and of the years before."""
        held = tax_reading.open_tickers(self.conn, date(profile.tax_year, 12, 31))
        names = [lot.ticker for lot in lots if is_section_1256(lot.ticker, lot.asset_class)]
        names += [name for name in held if is_section_1256(name, AssetClass(parse_instrument(name).asset_class))]
        carried = about_carryover(self.read_carryover(profile.tax_year), profile)
        return [*about_section_1256(names, profile), *carried]

    def list_closed(self, year: int) -> list[Any]:
        return tax_reading.closed_lots(self.conn, start=date(year, 1, 1), end=date(year, 12, 31))


Answer = Callable[[Ground], dict[str, Any]]


async def _answer(ask: RestCall, job: Answer, *, changes: bool = False, priced: bool = False) -> web.StreamResponse:
    """Run a job on lots that are in step, which costs a write only when trades changed since.

    `priced` answers are given with quotes of this moment, where providers have them."""
    await settle_due(ask.db)
    now = datetime.now(UTC)

    def read(conn: Connection) -> dict[str, Any] | None:
        ground = Ground.at(conn, now, ask.backend.tax_years)
        return None if tax_store.is_due(conn, ground.rules) else _whole(ground, job)

    def write(conn: Connection) -> dict[str, Any]:
        ground = Ground.at(conn, now, ask.backend.tax_years)
        if tax_store.is_due(conn, ground.rules):
            tax_store.sync(conn, ground.rules, now)
        return _whole(ground, job)

    def catch_up(conn: Connection) -> None:
        ground = Ground.at(conn, now, ask.backend.tax_years)
        if tax_store.is_due(conn, ground.rules):
            tax_store.sync(conn, ground.rules, now)

    try:
        if priced:
            if await ask.db.read(
                lambda conn: tax_store.is_due(conn, Ground.at(conn, now, ask.backend.tax_years).rules)
            ):
                await ask.db.write(catch_up)
            await ask_anew(ask.db, market_of(ask).quote)
        found = None if changes else await ask.db.read(read)
        return reply(await ask.db.write(write) if found is None else found)
    except TaxError as exc:
        raise _refuse(exc) from None


def _whole(ground: Ground, job: Answer) -> dict[str, Any]:
    answer = {**job(ground), **tell_foreign(ground.conn), "disclaimer": DISCLAIMER}
    if "recorded_payment" not in answer:
        status = ground.profiles.of(answer.get("tax_year") or ground.today.year).filing_status
        spouse = about_spouse(ground.rules.accounts, ground.rules.policy, status)
        answer["assumptions"] = [*answer.get("assumptions", ()), *spouse, DATES]
    if ground.rules.warnings:
        answer["warnings"] = [*answer.get("warnings", ()), *ground.rules.warnings]
    if "recorded_payment" not in answer and tax_store.is_empty(ground.conn):  # a receipt needs no advice
        answer["hint"] = _HINT
    return answer


def _refuse(exc: TaxError) -> Refusal:
    refusal = Refusal(exc.code, exc.text)
    refusal.status = 404 if exc.code == "no_open_lots" else 422
    return refusal


async def simulate(ask: RestCall) -> web.StreamResponse:
    fields = Fields(fill_aliases(await ask.json(), {"method": "cost_basis_method"}))
    wanted = SaleRequest(
        ticker=_ticker(fields, "ticker", required=True) or "",
        account_id=identifier(fields, "account_id"),
        quantity=fields.decimal("quantity", above=0, places=8),
        price=fields.decimal("price", above=0, places=8),
        action=fields.choice("action", ("sell", "cover")),
        method=member(fields, "cost_basis_method", CostBasisMethod, CostBasisMethod.FIFO),
        lot_ids=tuple(fields.texts("lot_ids", [], most=1000, length=300)),
    )
    if wanted.lot_ids and wanted.method is not CostBasisMethod.SPEC_ID:
        fields.wrong("lot_ids", "go with cost_basis_method SPEC_ID; any other method chooses the lots itself")
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        if is_expired(wanted.ticker, ground.today):
            raise TaxError(
                "no_open_lots",
                f"{wanted.ticker} is past its last day, so no lot of it is open; record what became of it (expired, "
                "exercised or assigned) as a corporate action, or import a file that says it.",
            )
        profile = ground.year(None)
        realized = year_gains(ground.list_closed(profile.tax_year), profile, ground.rules.accounts)
        lots = tax_reading.open_lots(ground.conn, related_to=wanted.ticker, alive_on=ground.today)
        answer = simulate_sale(
            lots,
            wanted,
            profile,
            ground.rules.accounts,
            today=ground.today,
            policy=ground.rules.policy,
            realized=realized,
            market_price=known_prices(ground.conn, ground.today, ticker=wanted.ticker).get(wanted.ticker),
        )
        method = ground.rules.methods.get(ground.today.year, ground.rules.method)
        said = [
            f"The lots were chosen by {wanted.method.value}; the journal books sales by {method.value} "
            "(tax.default_cost_basis)."
        ]
        contracts = [lot.ticker for lot in lots if is_section_1256(lot.ticker, lot.asset_class)]
        known = [] if wanted.method is method else said
        return {**to_json(answer), "assumptions": [*known, *about_section_1256(contracts, profile)]}

    return await _answer(ask, job)


async def estimate(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    year = _year(fields)
    account_id = _account(fields)
    status = member(fields, "filing_status", FilingStatus, None)
    unrealized = fields.flag("include_unrealized", False)
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        profile = ground.year(year)
        if status is not None:
            profile = msgspec.structs.replace(profile, filing_status=status)
        lots = ground.list_closed(profile.tax_year)
        prices = None
        if unrealized:
            lots += tax_reading.open_lots(ground.conn, alive_on=ground.today)  # another account's take losses over
            prices = known_prices(ground.conn, ground.today, account_id)
        answer = annual_estimate(
            lots,
            profile,
            ground.rules.accounts,
            account_id=account_id,
            prices=prices,
            today=ground.today,
            policy=ground.rules.policy,
        )
        said = ground.about_year(profile, lots)
        return {"effective_rate": None, "state_estimate": 0, **to_json(answer), "assumptions": said}

    return await _answer(ask, job, priced=unrealized)


async def wash_sales(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    account_id, ticker = _account(fields), _ticker(fields, "ticker")
    first: date | None = fields.day("date_range_start", None)
    last: date | None = fields.day("date_range_end", None)
    if first is not None and last is not None and first > last:
        fields.wrong("date_range_end", "must not be before date_range_start")
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        end = last or ground.today
        start = first or date(end.year, 1, 1)
        matches = tax_reading.wash_sales(ground.conn, start=start, end=end)
        lots, ends = tax_reading.loss_lots(ground.conn, matches), tax_reading.chain_ends(ground.conn, matches)
        return to_json(find(matches, lots, ends, start=start, end=end, account_id=account_id, ticker=ticker))

    return await _answer(ask, job)


async def lots_by_query(ask: RestCall) -> web.StreamResponse:
    return await _lots(ask, ask.query)


async def lots_by_body(ask: RestCall) -> web.StreamResponse:
    return await _lots(ask, await ask.json())


async def _lots(ask: RestCall, given: Mapping[str, Any]) -> web.StreamResponse:
    fields = Fields(given)
    account_id, ticker = _account(fields), _ticker(fields, "ticker")
    status = fields.choice("status", _STATUSES, "open")
    sort = fields.choice("sort_by", _SORTS, "date_acquired")
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        lots: list[Lot] = []
        expired: list[Lot] = []
        if status != "closed":
            for lot in tax_reading.open_lots(ground.conn, account_id=account_id, ticker=ticker):
                (expired if is_expired(lot.ticker, ground.today) else lots).append(lot)
        if status != "open":
            lots += tax_reading.closed_lots(ground.conn, account_id=account_id, ticker=ticker)
        prices = known_prices(ground.conn, ground.today, account_id) if status != "closed" else {}
        answer = to_json(list_lots(lots, prices, today=ground.today, status=status, sort_by=sort))
        for lot in answer["lots"]:
            lot["sync_status"] = "synced"  # an answer is always given from lots that are in step
        if expired:
            answer["expired_unresolved"] = {
                "lots": [{"lot_id": lot.lot_id, "ticker": lot.ticker, "quantity": lot.quantity} for lot in expired],
                "hint": "These options are past their last day, so they are not open; record what became of them "
                "(expired, exercised or assigned) as corporate actions, or import a file that says it.",
            }
        return answer

    return await _answer(ask, job, priced=status != "closed")


async def quarterly(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    quarter = member(fields, "quarter", Quarter)
    year = _year(fields)
    method = member(fields, "estimation_method", EstimationMethod, EstimationMethod.ANNUALIZED)
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        profile = ground.year(year)
        income = income_by_period(ground.list_closed(profile.tax_year), profile, ground.rules.accounts, ground.today)
        paid = tax_payments.list_payments(ground.conn, profile.tax_year)
        return to_json(quarterly_estimate(quarter, profile, income, paid, method=method, today=ground.today))

    return await _answer(ask, job)


async def pay(ask: RestCall) -> web.StreamResponse:
    """400 unless the caller says that the payment was really made."""
    actor = ask.session.actor
    body = await ask.json()
    fields = Fields(body)
    quarter = member(fields, "quarter", Quarter)
    year = _year(fields)
    amount = fields.decimal("payment_amount", above=0, places=2)
    day: date | None = fields.day("paid_on", None)
    fields.done()
    if body.get("confirm") is not True:
        raise BadRequest("confirmation_required", "Say confirm: true once the payment was really made.")
    payment = TaxPayment(quarter=quarter, amount=amount, paid_on=day)

    def job(ground: Ground) -> dict[str, Any]:
        profile = ground.year(year)
        before = tax_payments.list_payments(ground.conn, profile.tax_year)
        income = income_by_period(ground.list_closed(profile.tax_year), profile, ground.rules.accounts, ground.today)
        _, receipt = record_payment(before, payment, profile, income, today=ground.today)
        if not receipt.replaced:
            tax_payments.book(ground.conn, profile.tax_year, payment, actor)
        return to_json(receipt)

    return await _answer(ask, job, changes=True)


async def harvest(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    account_id = _account(fields)
    threshold = fields.decimal("min_loss_threshold", Decimal(100), least=0)
    exclude = fields.flag("exclude_wash_risk", False)
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        report = scan_harvest(
            tax_reading.open_lots(ground.conn, alive_on=ground.today),
            known_prices(ground.conn, ground.today),
            ground.year(None),
            ground.rules.accounts,
            today=ground.today,
            policy=ground.rules.policy,
            account_id=account_id,
            min_loss=threshold,
            exclude_wash_risk=exclude,
        )
        named = "The lots are sold by name (specific identification); a sale without names takes the oldest first."
        return {**to_json(report), "assumptions": [named]}

    return await _answer(ask, job, priced=True)


async def ytd_summary(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    year = _year(fields)
    account_id = _account(fields)
    group_by = fields.choice("group_by", ("symbol",), None)
    fields.done()

    def job(ground: Ground) -> dict[str, Any]:
        profile = ground.year(year)
        first, last = date(profile.tax_year, 1, 1), date(profile.tax_year, 12, 31)
        matches = tax_reading.wash_sales(ground.conn, start=first, end=last)
        lots = ground.list_closed(profile.tax_year)
        summary = summarize_year(
            lots,
            matches,
            profile,
            ground.rules.accounts,
            tax_payments.list_payments(ground.conn, profile.tax_year),
            today=ground.today,
            account_id=account_id,
            group_by=group_by,
        )
        installments = about_installments(profile, EstimationMethod.ANNUALIZED, ground.today)
        return {**to_json(summary), "assumptions": [*ground.about_year(profile, lots), *installments]}

    return await _answer(ask, job)


def _account(fields: Fields) -> str | None:
    return identifier(fields, "account_id", None)


def _year(fields: Fields) -> int | None:
    return fields.integer("tax_year", None, least=FIRST_YEAR, most=LAST_YEAR)


def _ticker(fields: Fields, name: str, *, required: bool = False) -> str | None:
    text = fields.text(name, least=1, most=128) if required else fields.text(name, None, least=1, most=128)
    if not text:
        return None
    try:
        return parse_instrument(text).symbol
    except ValueError as exc:
        fields.wrong(name, str(exc))
        return None


ROUTES = (
    Route("POST", "/tax/simulate", READ, simulate),
    Route("POST", "/tax/estimate", READ, estimate),
    Route("POST", "/tax/wash-sales", READ, wash_sales),
    Route("GET", "/tax/lots", READ, lots_by_query),
    Route("POST", "/tax/lots", READ, lots_by_body),
    Route("GET", "/tax/quarterly", READ, quarterly),
    Route("POST", "/tax/quarterly/payment", WRITE, pay),
    Route("GET", "/tax/harvest", READ, harvest),
    Route("GET", "/tax/ytd-summary", READ, ytd_summary),
)
