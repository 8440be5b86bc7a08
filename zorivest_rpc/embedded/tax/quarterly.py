"""Estimated tax for one quarter (§6654): what is required by when, what was paid, and the penalty for what was not.

Rule 1: everything is cumulative; an installment is what the cumulative need exceeds the earlier installments by.
Rule 2: payments cover the oldest installment that is still open (§6654(b)(3)). Withholding counts as paid in four
equal parts on the due dates (§6654(g)).
Rule 3: while the year is not over, its tax is projected from the quarter's own period, or from a later one that is
over already; afterwards it is known. The required annual payment is a share of that tax (§6654(d)(1)(B)), so a later
loss lowers the installments of earlier quarters as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.assumptions import about_installments
from zorivest_rpc.embedded.tax.dates import next_business_day
from zorivest_rpc.embedded.tax.estimate import estimate_gains, federal_total, other_income_tax, year_gains
from zorivest_rpc.embedded.tax.law import penalty_rates, statute
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    Accounts,
    EstimationMethod,
    Quarter,
    TaxError,
    TaxProfile,
)
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = [
    "Income",
    "Installment",
    "PaymentReceipt",
    "QuarterBasis",
    "QuarterlyEstimate",
    "TaxPayment",
    "due_date",
    "income_by_period",
    "installments",
    "interest",
    "penalty_for",
    "quarterly_estimate",
    "record_payment",
]

_PERIOD_ENDS = ((3, 31), (5, 31), (8, 31), (12, 31))
_ANNUALIZE = (Decimal(4), Decimal("2.4"), Decimal("1.5"), Decimal(1))
_DUE = ((0, 4), (0, 6), (0, 9), (1, 1))  # (year offset, month), always the 15th


class TaxPayment(msgspec.Struct, frozen=True, kw_only=True):
    """A payment made for a quarter; without a date it counts as made on time."""

    quarter: Quarter
    amount: Decimal
    paid_on: date | None = None


class Income(msgspec.Struct, frozen=True, kw_only=True):
    """Results to the end of each of the four periods, as far as they are known; `ended` counts the periods that are
    over."""

    periods: tuple[Gains, Gains, Gains, Gains]
    ended: int

    @property
    def is_final(self) -> bool:
        return self.ended == len(self.periods)

    @property
    def to_date(self) -> Gains:
        return self.periods[3]


class Installment(msgspec.Struct, frozen=True, kw_only=True):
    quarter: Quarter
    due_date: date
    required: Decimal
    cumulative: Decimal
    year_tax: Decimal
    regular_cumulative: Decimal


class QuarterBasis(msgspec.Struct, frozen=True, kw_only=True):
    """The figures behind a requirement."""

    short_term: Decimal
    long_term: Decimal
    projected_year_tax: Decimal
    regular_cumulative: Decimal
    prior_year_tax: Decimal | None
    prior_year_share: Decimal
    withholding_to_date: Decimal
    notes: tuple[str, ...]


class QuarterlyEstimate(msgspec.Struct, frozen=True, kw_only=True):
    quarter: Quarter
    tax_year: int
    method: EstimationMethod
    required_payment: Decimal
    cumulative_required: Decimal
    cumulative_paid: Decimal
    underpayment: Decimal
    penalty_estimate: Decimal
    due_date: date
    status: str
    basis: QuarterBasis
    required: Decimal
    paid: Decimal
    due: Decimal
    penalty: Decimal
    assumptions: tuple[str, ...] = ()
    disclaimer: str = DISCLAIMER


class PaymentReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """`replaced` is true when the same amount was already booked for the quarter: it describes the same payment."""

    quarter: Quarter
    tax_year: int
    recorded_payment: Decimal
    cumulative_paid: Decimal
    remaining_shortfall: Decimal
    replaced: bool
    status: str = "recorded"
    disclaimer: str = DISCLAIMER


def due_date(tax_year: int, quarter: Quarter) -> date:
    """The 15th of April, June, September and January, or the next business day (§6654(c)(2), §7503)."""
    offset, month = _DUE[quarter.number - 1]
    return next_business_day(date(tax_year + offset, month, 15))


def income_by_period(lots: Iterable[Lot], profile: TaxProfile, accounts: Accounts, today: date) -> Income:
    """Results closed by 31 March, 31 May, 31 August and 31 December, none of them later than `today`."""
    known = list(lots)
    ends = [min(today, date(profile.tax_year, month, day)) for month, day in _PERIOD_ENDS]
    first, second, third, fourth = (year_gains(known, profile, accounts, until=end) for end in ends)
    ended = sum(today > date(profile.tax_year, month, day) for month, day in _PERIOD_ENDS)
    return Income(periods=(first, second, third, fourth), ended=ended)


def _prior_year(profile: TaxProfile) -> tuple[Decimal | None, Decimal]:
    """The prior-year figure that is always enough, and its share: 110 % for high incomes (§6654(d)(1)(C))."""
    law = statute()
    agi = profile.agi_estimate if profile.prior_year_agi is None else profile.prior_year_agi
    is_high = agi > law.prior_year_high_agi[profile.filing_status.value]
    share = law.prior_year_share_high if is_high else law.prior_year_share
    return (None if profile.prior_year_tax is None else profile.prior_year_tax * share), share


def installments(
    profile: TaxProfile, income: Income, method: EstimationMethod, asked: Quarter = Quarter.Q4
) -> tuple[Installment, ...]:
    """The four required installments under one method, as the question about one quarter sees them."""
    law = statute()
    prior, _ = _prior_year(profile)
    projected = [
        federal_total(profile, gains.times(factor)) for gains, factor in zip(income.periods, _ANNUALIZE, strict=True)
    ]
    year_tax = projected[max(asked.number, income.ended) - 1]
    enough = law.current_year_share * year_tax
    done: list[Installment] = []
    paid_for = ZERO
    for quarter, annualized in zip(Quarter, projected, strict=True):
        k = quarter.number
        regular = (enough if prior is None else min(enough, prior)) * k / 4
        if method is EstimationMethod.PRIOR_YEAR:
            need = (enough if prior is None else prior) * k / 4
        elif method is EstimationMethod.ACTUAL:
            added = max(ZERO, estimate_gains(profile, income.to_date).federal_estimate.total)
            need = law.current_year_share * added * k / 4
        else:
            need = min(law.current_year_share * annualized * k / 4, regular)
        required = max(ZERO, cents(need) - paid_for)  # Schedule AI, lines 21 to 27
        paid_for += required
        done.append(
            Installment(
                quarter=quarter,
                due_date=due_date(profile.tax_year, quarter),
                required=required,
                cumulative=paid_for,
                year_tax=cents(year_tax),
                regular_cumulative=cents(regular),
            )
        )
    return tuple(done)


def interest(amount: Decimal, start: date, end: date) -> Decimal:
    """Simple interest from one day to a later one at each day's underpayment rate (§6654(a), §6621), else nothing."""
    rates = [(_in_force(rate.start), rate.rate) for rate in penalty_rates()]
    turns = [since for since, _ in rates if start < since <= end]
    turns += [date(year, 1, 1) for year in range(start.year + 1, end.year + 1)]
    owed, since = ZERO, start
    for until in [*sorted(set(turns)), end]:
        days = (until - since).days
        if days > 0:
            rate = next((rate for turn, rate in reversed(rates) if turn <= since), rates[0][1])
            year_length = (date(since.year + 1, 1, 1) - date(since.year, 1, 1)).days
            owed += amount * rate * days / year_length
        since = max(since, until)
    return owed


def _in_force(start: date) -> date:
    """When a rate begins for estimated tax: that of the first quarter lasts until 15 April (§6621(b)(2)(B))."""
    return start.replace(day=15) if (start.month, start.day) == (4, 1) else start


def _counted_withholding(profile: TaxProfile, method: EstimationMethod) -> Decimal:
    """Withholding that counts towards a requirement: where that is for the tax on gains alone, what the tax on other
    income leaves of it."""
    if method is not EstimationMethod.ACTUAL:
        return profile.withholding
    return max(ZERO, profile.withholding - other_income_tax(profile))


def _credits(year: int, withheld: Decimal, payments: Iterable[TaxPayment]) -> list[tuple[date, Decimal]]:
    """Payments and withholding with the days they count from, earliest first."""
    entries = [(payment.paid_on or due_date(year, payment.quarter), payment.amount) for payment in payments]
    if withheld:
        entries += [(due_date(year, quarter), withheld / 4) for quarter in Quarter]
    return sorted(entries, key=lambda entry: entry[0])


def penalty_for(
    quarter: Quarter,
    plan: Sequence[Installment],
    profile: TaxProfile,
    payments: Iterable[TaxPayment],
    today: date,
    withheld: Decimal,
) -> Decimal:
    """The addition to tax for one installment: its unpaid part, day by day, until it is paid or the return is due."""
    if plan[3].year_tax - profile.withholding < statute().small_balance:
        return cents(ZERO)  # §6654(e)(1)
    last_day = _last_day(profile.tax_year, today)
    entries = [entry for entry in _credits(profile.tax_year, withheld, payments) if entry[0] <= last_day]
    owed = ZERO
    for installment in plan:
        left = installment.required
        while left > 0 and entries:
            day, amount = entries[0]
            used = min(left, amount)
            if installment.quarter is quarter:
                owed += interest(used, installment.due_date, day)
            left -= used
            entries[0] = (day, amount - used)
            if entries[0][1] <= 0:
                entries.pop(0)
        if installment.quarter is quarter:
            owed += interest(left, installment.due_date, last_day)
            break
    return cents(owed)


def _last_day(year: int, today: date) -> date:
    """Until when the addition to tax grows: today, or the day the return is due (§6654(b)(2))."""
    return min(today, next_business_day(date(year + 1, 4, 15)))


def _cumulative_paid(withheld: Decimal, payments: Iterable[TaxPayment], quarter: Quarter) -> Decimal:
    own = sum((payment.amount for payment in payments if payment.quarter.number <= quarter.number), ZERO)
    return cents(own + withheld * quarter.number / 4)


def _status(required: Decimal, paid: Decimal, due: date, today: date) -> str:
    """OVER when more than enough is paid, PAID when enough, DUE from the due date on, UPCOMING before it."""
    if paid > required:
        return "OVER"
    if paid == required and (paid > 0 or today > due):
        return "PAID"
    return "DUE" if today >= due else "UPCOMING"


def quarterly_estimate(
    quarter: Quarter,
    profile: TaxProfile,
    income: Income,
    payments: Sequence[TaxPayment],
    *,
    method: EstimationMethod = EstimationMethod.ANNUALIZED,
    today: date,
) -> QuarterlyEstimate:
    """What one quarter asks for under a method, against what was paid up to it."""
    plan = installments(profile, income, method, quarter)
    installment = plan[quarter.number - 1]
    withheld = _counted_withholding(profile, method)
    paid = _cumulative_paid(withheld, payments, quarter)
    shortfall = max(ZERO, installment.cumulative - paid)
    penalty = penalty_for(quarter, plan, profile, payments, today, withheld)
    gains = income.periods[quarter.number - 1]
    _, share = _prior_year(profile)
    return QuarterlyEstimate(
        quarter=quarter,
        tax_year=profile.tax_year,
        method=method,
        required_payment=installment.required,
        cumulative_required=installment.cumulative,
        cumulative_paid=paid,
        underpayment=shortfall,
        penalty_estimate=penalty,
        due_date=installment.due_date,
        status=_status(installment.cumulative, paid, installment.due_date, today),
        basis=QuarterBasis(
            short_term=cents(gains.short_term + gains.ordinary),
            long_term=cents(gains.long_term),
            projected_year_tax=installment.year_tax,
            regular_cumulative=installment.regular_cumulative,
            prior_year_tax=profile.prior_year_tax,
            prior_year_share=share,
            withholding_to_date=cents(withheld * quarter.number / 4),
            notes=tuple(_notes(profile, method, quarter, today, penalty)),
        ),
        required=installment.required,
        paid=paid,
        due=shortfall,
        penalty=penalty,
        assumptions=tuple(about_installments(profile, method, today)),
    )


def _notes(
    profile: TaxProfile, method: EstimationMethod, quarter: Quarter, today: date, penalty: Decimal
) -> Iterable[str]:
    month, day = _PERIOD_ENDS[quarter.number - 1]
    last_day = _last_day(profile.tax_year, today)
    if profile.prior_year_tax is None and method is EstimationMethod.PRIOR_YEAR:
        yield "The profile names no prior-year tax; 90 % of this year's projected tax stands in for it."
    if today < date(profile.tax_year, month, day):
        yield f"The period ends on {date(profile.tax_year, month, day)}; only gains up to {today} are in."
    if penalty and any(rate.assumed and _in_force(rate.start) < last_day for rate in penalty_rates()):
        yield "The latest underpayment rate is carried forward from the last published quarter."


def record_payment(
    payments: Sequence[TaxPayment],
    payment: TaxPayment,
    profile: TaxProfile,
    income: Income,
    *,
    method: EstimationMethod = EstimationMethod.ANNUALIZED,
    today: date,
) -> tuple[tuple[TaxPayment, ...], PaymentReceipt]:
    """The payments with one more, and its receipt; the same quarter and amount again is the same payment."""
    if payment.amount <= 0:
        raise TaxError("invalid_amount", "A payment must be above zero.")
    same = [
        known for known in payments if (known.quarter, cents(known.amount)) == (payment.quarter, cents(payment.amount))
    ]
    booked = tuple(payments) if same else (*payments, payment)
    estimate = quarterly_estimate(payment.quarter, profile, income, booked, method=method, today=today)
    receipt = PaymentReceipt(
        quarter=payment.quarter,
        tax_year=profile.tax_year,
        recorded_payment=cents(payment.amount),
        cumulative_paid=estimate.cumulative_paid,
        remaining_shortfall=estimate.underpayment,
        replaced=bool(same),
    )
    return booked, receipt
