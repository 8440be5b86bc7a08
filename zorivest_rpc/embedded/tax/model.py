"""The words of the tax engine: closed sets, executions, accounts, the taxpayer's profile, and how it refuses.

Every enumeration reads what callers write: any case, and the spellings that are in use for the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TypeVar

import msgspec

from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.money import ZERO
from zorivest_rpc.errors import ZorivestError

__all__ = [
    "DISCLAIMER",
    "OWN_TAXABLE",
    "AccountTraits",
    "Accounts",
    "AcquisitionSource",
    "CostBasisMethod",
    "Direction",
    "EstimationMethod",
    "FilingStatus",
    "OptionDelivery",
    "Price",
    "Quarter",
    "StockSplit",
    "TaxError",
    "TaxFill",
    "TaxProfile",
    "WashPolicy",
    "WashSaleMethod",
    "WashSaleStatus",
    "parse",
]

DISCLAIMER = (
    "An estimate from the journal's own records under simplified federal rules and a flat state rate. It is not tax "
    "advice; have a tax professional check it before you file or pay."
)


class TaxError(ZorivestError):
    """A question the engine cannot answer as asked; `code` names the reason for programs."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Direction(Enum):
    LONG = "long"
    SHORT = "short"


class AcquisitionSource(Enum):
    PURCHASE = "PURCHASE"
    DRIP = "DRIP"
    TRANSFER = "TRANSFER"
    GIFT = "GIFT"
    INHERITANCE = "INHERITANCE"
    EXERCISE = "EXERCISE"
    ASSIGNMENT = "ASSIGNMENT"


class CostBasisMethod(Enum):
    FIFO = "FIFO"
    LIFO = "LIFO"
    HIFO = "HIFO"
    SPEC_ID = "SPEC_ID"
    AVG_COST = "AVG_COST"
    MAX_LT_GAIN = "MAX_LT_GAIN"
    MAX_LT_LOSS = "MAX_LT_LOSS"
    MAX_ST_GAIN = "MAX_ST_GAIN"
    MAX_ST_LOSS = "MAX_ST_LOSS"


class FilingStatus(Enum):
    SINGLE = "SINGLE"
    MARRIED_JOINT = "MARRIED_JOINT"
    MARRIED_SEPARATE = "MARRIED_SEPARATE"
    HEAD_OF_HOUSEHOLD = "HEAD_OF_HOUSEHOLD"


class WashSaleMethod(Enum):
    CONSERVATIVE = "CONSERVATIVE"
    AGGRESSIVE = "AGGRESSIVE"


class WashSaleStatus(Enum):
    DISALLOWED = "DISALLOWED"
    ABSORBED = "ABSORBED"
    RELEASED = "RELEASED"
    DESTROYED = "DESTROYED"


class EstimationMethod(Enum):
    ANNUALIZED = "annualized"
    PRIOR_YEAR = "prior_year"
    ACTUAL = "actual"


class Quarter(Enum):
    Q1 = "Q1"
    Q2 = "Q2"
    Q3 = "Q3"
    Q4 = "Q4"

    @property
    def number(self) -> int:
        return int(self.value[1])


_ALIASES: dict[str, str] = {
    "SPECIFIC_ID": "SPEC_ID",
    "AVERAGE_COST": "AVG_COST",
    "MARRIED_FILING_JOINTLY": "MARRIED_JOINT",
    "MARRIED_FILING_SEPARATELY": "MARRIED_SEPARATE",
    "QUALIFYING_SURVIVING_SPOUSE": "MARRIED_JOINT",  # the same schedules and thresholds
    "HEAD": "HEAD_OF_HOUSEHOLD",
    "ACTUAL_TO_DATE": "ACTUAL",
    "PRIOR_YEAR_SAFE_HARBOR": "PRIOR_YEAR",
}

E = TypeVar("E", bound=Enum)


def parse(kind: type[E], text: str) -> E:
    """The member of `kind` that `text` names, whatever its case or spelling."""
    name = text.strip().upper().replace("-", "_").replace(" ", "_")
    members = kind.__members__
    found = members.get(name) or members.get(_ALIASES.get(name, ""))
    if found is None:
        known = ", ".join(members)
        raise TaxError("unknown_value", f'No {kind.__name__} "{text}"; one of {known}.')
    return found


DOLLAR = "USD"


class TaxFill(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fill. `commission` holds commission and fees; `lot_ids` are the lots a sale identifies.

    Amounts are dollars; `currency` is what was paid in, which tells positions of one symbol apart."""

    exec_id: str
    time: datetime
    account_id: str
    symbol: str
    side: Side
    quantity: Decimal
    price: Decimal
    commission: Decimal = ZERO
    multiplier: Decimal = Decimal(1)
    asset_class: AssetClass = AssetClass.EQUITY
    order_id: str | None = None
    source: AcquisitionSource = AcquisitionSource.PURCHASE
    method: CostBasisMethod | None = None
    lot_ids: tuple[str, ...] = ()
    currency: str = DOLLAR


class StockSplit(msgspec.Struct, frozen=True, kw_only=True):
    """`of` old shares become `to` new ones: 2 of 1 in a two-for-one split, 1 of 10 in a reverse split.

    Without an account, in every account."""

    exec_id: str
    time: datetime
    symbol: str
    to: Decimal
    of: Decimal = Decimal(1)
    account_id: str | None = None


class OptionDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """Contracts that were exercised (held long) or assigned (written); the shares change hands at the strike.

    Where the journal has fills for it, `closing` took the contracts out at zero and `shares` moved the shares; they
    stand for themselves should the contracts not be open."""

    exec_id: str
    time: datetime
    account_id: str
    symbol: str
    contracts: Decimal
    commission: Decimal = ZERO
    closing: TaxFill | None = None
    shares: TaxFill | None = None


class AccountTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What tax law asks of an account; an account without a description is a taxable one of the taxpayer's own."""

    tax_advantaged: bool = False
    spousal: bool = False


class WashPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How strictly wash sales are looked for; `mark_to_market_years` are the years of a section 475 election."""

    method: WashSaleMethod = WashSaleMethod.CONSERVATIVE
    include_drip: bool = True
    include_spousal: bool = True
    section_1256_eligible: bool = True
    mark_to_market_years: frozenset[int] = frozenset()


class TaxProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The taxpayer in one year. `agi_estimate` leaves trading gains out; None as `prior_year_tax` means unknown.

    `stated` names the fields that the taxpayer gave; the others hold defaults."""

    tax_year: int
    filing_status: FilingStatus = FilingStatus.SINGLE
    federal_bracket: Decimal = ZERO
    state_tax_rate: Decimal = ZERO
    state: str = ""
    prior_year_tax: Decimal | None = None
    prior_year_agi: Decimal | None = None
    agi_estimate: Decimal = ZERO
    withholding: Decimal = ZERO
    capital_loss_carryforward: Decimal = ZERO
    capital_loss_carryforward_lt: Decimal = ZERO
    wash_sale_method: WashSaleMethod = WashSaleMethod.CONSERVATIVE
    default_cost_basis: CostBasisMethod = CostBasisMethod.FIFO
    include_drip_wash_detection: bool = True
    include_spousal_accounts: bool = True
    section_475_elected: bool = False
    section_1256_eligible: bool = True
    is_default: bool = False
    stated: tuple[str, ...] = ()

    @property
    def states_carryforward(self) -> bool:
        """Whether the year begins with a figure of the taxpayer's own; a zero counts only if it was given."""
        if self.capital_loss_carryforward or self.capital_loss_carryforward_lt:
            return True
        return bool({"capital_loss_carryforward", "capital_loss_carryforward_lt"}.intersection(self.stated))

    @property
    def source(self) -> str:
        return "default" if self.is_default else "profile"

    @property
    def wash_policy(self) -> WashPolicy:
        """The policy of this year alone; one book over several years unites the elections of all its profiles."""
        return WashPolicy(
            method=self.wash_sale_method,
            include_drip=self.include_drip_wash_detection,
            include_spousal=self.include_spousal_accounts,
            section_1256_eligible=self.section_1256_eligible,
            mark_to_market_years=frozenset([self.tax_year]) if self.section_475_elected else frozenset(),
        )


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """A price and where it came from: a fresh quote, a cached one, a stored bar, or the last trade; `stale` where it is
    of an earlier day."""

    price: Decimal
    source: str = "quote"
    stale: bool = False
    as_of: date | None = None


Accounts = Mapping[str, AccountTraits]
OWN_TAXABLE = AccountTraits()
