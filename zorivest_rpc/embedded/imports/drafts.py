"""What an importer takes and what it gives back, as frozen values.

A whole file that cannot be used is an `ImportRefused`; a row that cannot be used is a `RowError` beside the rows that
could. Nothing here knows a database: a draft carries the keys by which a writer recognises what it already holds.
Drafts hold no cycles and come by the hundred thousand, so the collector of cycles is told to leave them alone.
"""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.errors import ZorivestError

__all__ = [
    "BankCategory",
    "BankDraft",
    "BankHints",
    "BankImport",
    "BrokerHints",
    "BrokerImport",
    "Effect",
    "Fee",
    "FeeType",
    "ImportLimits",
    "ImportRefused",
    "Note",
    "PositionEvent",
    "RateDraft",
    "RowError",
    "Status",
    "TradeDraft",
]

DEFAULT_ZONE = "America/New_York"


class ImportRefused(ZorivestError):
    """A file of which nothing is imported: `what` is wrong, `where`, and what to do `next`; `code` is for programs."""

    def __init__(
        self, code: str, what: str, *, where: str = "", next: str = "", headers: tuple[str, ...] = (), status: int = 422
    ) -> None:
        super().__init__(" ".join(part for part in (what, where and f"({where})", next) if part))
        self.code = code
        self.what = what
        self.where = where
        self.next = next
        self.headers = headers
        self.status = status


class Effect(enum.StrEnum):
    """What a row says a fill did to its position, where it says so."""

    OPEN = "OPEN"
    CLOSE = "CLOSE"


class FeeType(enum.StrEnum):
    """The ledger kinds a cost can be booked under."""

    COMMISSION = "commission"
    EXCHANGE = "exchange"
    REGULATORY = "regulatory"
    ECN = "ecn"
    CLEARING = "clearing"
    PLATFORM = "platform"
    OTHER = "other"


class BankCategory(enum.StrEnum):
    """What a line of a bank statement was for."""

    DEPOSIT = "deposit"
    WITHDRAWAL = "withdrawal"
    TRANSFER_IN = "transfer_in"
    TRANSFER_OUT = "transfer_out"
    FEE = "fee"
    INTEREST = "interest"
    DIVIDEND = "dividend"
    ACH_DEBIT = "ach_debit"
    ACH_CREDIT = "ach_credit"
    WIRE_IN = "wire_in"
    WIRE_OUT = "wire_out"
    CHECK = "check"
    CARD_PURCHASE = "card_purchase"
    REFUND = "refund"
    ATM = "atm"
    OTHER = "other"


class Status(enum.StrEnum):
    """Every row understood, some, or none."""

    SUCCESS = "SUCCESS"
    PARTIAL = "PARTIAL"
    FAILED = "FAILED"


class ImportLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one file may ask of us. A full page of a PDF takes about half a second of processor time."""

    max_bytes: int = 50 * 1024 * 1024
    max_rows: int = 250_000
    max_errors: int = 200
    max_pages: int = 300
    max_page_seconds: int = 20
    max_pdf_memory: int = 1024 * 1024 * 1024


class BrokerHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller knows about a broker file; everything but the account may stay unknown.

    `multipliers` are those of futures by root; they win over the table of contracts."""

    account_id: str
    broker: str = "auto"
    file_name: str = ""
    timezone: str = DEFAULT_ZONE
    currency: str = "USD"
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    day_first: bool | None = None
    multipliers: dict[str, Decimal] = {}


class BankHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller knows about a bank statement.

    `columns` maps roles (date, description, amount or debit and credit, balance, reference, category …) to the headers
    of a CSV whose bank is not known; `skip_rows` passes over its preamble."""

    account_id: str
    format: str = "auto"
    file_name: str = ""
    currency: str = "USD"
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    day_first: bool | None = None
    invert_sign: bool = False
    skip_rows: int = 0
    columns: dict[str, str] = {}


class RowError(msgspec.Struct, frozen=True, kw_only=True):
    """One row that was not imported and why."""

    row_number: int | None
    field: str
    message: str
    raw_line: str = ""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something about the import that the user should know; `code` is for programs."""

    code: str
    message: str
    row_number: int | None = None


class Fee(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One cost of an execution, for the fee ledger; a negative amount is a rebate."""

    fee_type: FeeType
    amount: Decimal
    currency: str
    description: str = ""


class RateDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One unit of `base` cost `rate` units of `quote` on a day."""

    day: dt.date
    base: str
    quote: str
    rate: Decimal


class TradeDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One execution as understood.

    `exec_id` is the broker's own id, or one made from the content when `is_synthesised`. `dedup_hash` depends on the
    trade alone, not on the broker, the file or the layout; equal fills of one file are told apart by `occurrence`.
    One of `currency` was worth `fx_rate` of `base_currency`; `fee_currency` is named where costs are in another one."""

    row_number: int | None
    broker: str
    account_id: str
    exec_time: dt.datetime
    instrument: str
    symbol: str
    asset_class: AssetClass
    side: Side
    quantity: Decimal
    price: Decimal
    multiplier: Decimal
    currency: str
    commission: Decimal = Decimal(0)
    fees: Decimal = Decimal(0)
    ledger: tuple[Fee, ...] = ()
    exec_id: str = ""
    is_synthesised: bool = True
    dedup_hash: str = ""
    occurrence: int = 1
    time_known: bool = True
    base_currency: str | None = None
    base_amount: Decimal | None = None
    fx_rate: Decimal | None = None
    fee_currency: str = ""
    order_id: str | None = None
    realized_pnl: Decimal | None = None
    notes: str = ""
    strategy: str = ""
    mae: Decimal | None = None
    mfe: Decimal | None = None
    identifier: tuple[str, str] | None = None
    effect: Effect | None = None
    sequence: int = 0


class PositionEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened to a position without a trade: an option's end (expiry, assignment, exercise) or a split.

    Of a split without a ratio, `quantity` is the number of shares that were added, below zero of those taken away."""

    row_number: int | None
    kind: str
    symbol: str
    day: dt.date
    quantity: Decimal | None = None
    numerator: Decimal | None = None
    denominator: Decimal | None = None
    is_reverse: bool = False


class BrokerImport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one broker file said. `total_rows` = parsed + skipped + refused rows; one row may hold two fills."""

    status: Status
    broker: str
    detected_format: str
    detected_by: str
    account_id: str
    file_sha256: str
    file_size: int
    encoding: str
    total_rows: int
    parsed_rows: int
    skipped_rows: int
    repeated_rows: int
    error_rows: int
    trades: tuple[TradeDraft, ...]
    errors: tuple[RowError, ...]
    warnings: tuple[Note, ...]
    date_from: dt.datetime | None
    date_to: dt.datetime | None
    symbols: tuple[str, ...]
    confidence: float | None = None
    events: tuple[PositionEvent, ...] = ()
    skipped_kinds: dict[str, int] = {}
    rates: tuple[RateDraft, ...] = ()
    base_currency: str | None = None

    def preview(self, count: int = 5) -> tuple[TradeDraft, ...]:
        return self.trades[:count]


class BankDraft(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a statement; money in is positive. Recognised again by `reference_id` when `reference_is_unique`,
    else by `dedup_hash`, which counts equal lines within the file."""

    row_number: int | None
    account_id: str
    date: dt.date
    description: str
    amount: Decimal
    category: BankCategory
    currency: str
    post_date: dt.date | None = None
    reference_id: str | None = None
    reference_is_unique: bool = False
    running_balance: Decimal | None = None
    notes: str = ""
    occurrence: int = 1
    dedup_hash: str = ""


class BankImport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one bank statement said."""

    status: Status
    format: str
    bank: str | None
    account_id: str
    file_sha256: str
    file_size: int
    encoding: str
    total_rows: int
    parsed_rows: int
    skipped_rows: int
    error_rows: int
    transactions: tuple[BankDraft, ...]
    errors: tuple[RowError, ...]
    warnings: tuple[Note, ...]
    date_from: dt.date | None
    date_to: dt.date | None
    net_change: Decimal
    closing_balance: Decimal | None
    closing_date: dt.date | None
    balance_source: str
    balance_match: bool | None
    balance_drift: Decimal | None
