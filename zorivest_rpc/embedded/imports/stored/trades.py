"""Drafts from broker files on their way into the journal: what is new is written, what is held is recognised.

A whole file is one transaction. Trades are written by `trades.insert_many`, so round trips and whatever else follows
from trades is in step when it ends. A draft equal to a held trade changes at most its fees."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Connection, func, select

from ...database import audit
from ...database.columns import money, quantity
from ...database.schema.books import import_batches
from ...journal import accounts as account_store
from ...journal import trades
from ...journal.exchange import HOW_TO_GIVE, Rate, RateBook, add_rates
from ...market.identifiers import known_here
from ...tax.dates import trade_date
from ...values.currencies import currency_of
from ...values.inputs import Page
from ...values.kinds import AssetClass
from ...values.kinds import AssetClass as DraftAsset
from ...values.money import divide
from ...values.symbols import Instrument, parse_instrument
from .. import dedup
from ..collect import outcome
from ..dedup import SortedTrades
from ..drafts import DEFAULT_ZONE, BrokerImport, ImportLimits, Note, RowError, TradeDraft
from .events import apply_events
from .held import Held, find_held, sort_out
from .order import in_order
from .profits import compare_profits

__all__ = [
    "batches",
    "date_range",
    "new_batch_id",
    "record_batch",
    "render_errors",
    "render_notes",
    "roomy",
    "same_file",
    "store",
]

_LONGEST_ID = 128
_LARGEST = Decimal(10**10)
_PREVIEW = 5
_MANY = 2000
_CACHE_KIB = 64 * 1024
_STEP = 1000
_MOST_ERRORS = ImportLimits().max_errors


# long: the steps of one write in the order in which each needs the one before
def store(
    conn: Connection,
    found: BrokerImport,
    *,
    kind: str,
    file_name: str,
    actor: str,
    auto_create: bool,
    source: str = "import",
    broker: str | None = None,
    zone: str = DEFAULT_ZONE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Any]:
    """Write what a file brings that the journal does not hold yet, and its batch; the answer to the caller.

    `broker` is the connection that brought it, where there is one; a file names its own. `zone` is the time zone in
    which files without one are read. `progress(done, total)` hears how much of it is in the journal."""
    found = _with_tickers(conn, found)
    if found.rates:
        add_rates(conn, (Rate(*msgspec.structs.astuple(one)) for one in found.rates), f"{found.broker} file", actor)
    drafts, refused = _storable(found.trades)
    drafts, unrated = _settle_fees(conn, drafts)
    refused += unrated
    if drafts:
        account_store.usable(conn, found.account_id, auto_create=auto_create, actor=actor, currency=found.base_currency)
    batch_id = new_batch_id()
    held, elsewhere = find_held(conn, found.account_id, drafts)
    sorted_out = sort_out(drafts, held, ZoneInfo(zone))
    new = in_order(conn, found.account_id, sorted_out.new, list(held.values()))
    sorted_out = msgspec.structs.replace(sorted_out, new=new)
    with roomy(conn, len(sorted_out.new)):
        trades.insert_many(conn, _drafts(sorted_out.new, batch_id, source, broker, progress))
    contradicted = compare_profits(conn, sorted_out.new)
    updated = _update_fees(conn, sorted_out, held, actor)
    applied, left_out = apply_events(conn, found, actor)
    warnings = [*found.warnings, *sorted_out.warnings, *contradicted, *left_out]
    warnings += _warn_of_repeats(conn, found, elsewhere)
    answer: dict[str, Any] = {"batch_id": batch_id} | _describe(
        found, drafts, sorted_out, refused, warnings, fees_updated=updated, corporate_actions=applied
    )
    record_batch(
        conn,
        answer,
        kind=kind,
        file_name=file_name,
        file_sha256=found.file_sha256,
        duplicates=answer["duplicates_skipped"],
        updated=updated,
        broker=found.broker,
        first_day=None if found.date_from is None else found.date_from.date(),
        last_day=None if found.date_to is None else found.date_to.date(),
        actor=actor,
    )
    return answer


def _warn_of_repeats(conn: Connection, found: BrokerImport, elsewhere: Mapping[str, int]) -> Iterator[Note]:
    if elsewhere:
        yield Note(code="held_elsewhere", message=_elsewhere(elsewhere, found.account_id))
    if same_file(conn, found.account_id, found.file_sha256):
        yield Note(code="same_file", message="This very file was imported before.")


def _describe(
    found: BrokerImport,
    drafts: Sequence[TradeDraft],
    sorted_out: SortedTrades,
    refused: Sequence[RowError],
    warnings: Sequence[Note],
    *,
    fees_updated: int,
    corporate_actions: int,
) -> dict[str, Any]:
    """The answer to the caller; `refused` are rows that could be read and not stored."""
    parsed_rows = max(found.parsed_rows - len(refused), 0)
    error_rows = found.error_rows + len(refused)
    answer: dict[str, Any] = {
        "status": outcome(parsed_rows, error_rows).value,
        "broker": found.broker,
        "detected_by": found.detected_by,
        "detected_format": found.detected_format,
        "account_id": found.account_id,
        "total_rows": found.total_rows,
        "parsed_rows": parsed_rows,
        "imported": len(sorted_out.new),
        "duplicates_skipped": len(sorted_out.duplicates) + found.repeated_rows,
        "fees_updated": fees_updated,
        "skipped_rows": found.skipped_rows,
        "skipped": [{"kind": kind, "count": count} for kind, count in found.skipped_kinds.items()],
        "corporate_actions": corporate_actions,
        "error_rows": error_rows,
        "errors": render_errors([*found.errors, *refused][:_MOST_ERRORS]),
        "warnings": render_notes(warnings),
        "date_range": date_range(found.date_from, found.date_to),
        "symbols": sorted({draft.symbol for draft in drafts}),
        "preview": [_render_draft(draft) for draft in drafts[:_PREVIEW]],
    }
    if found.confidence is not None:
        answer["confidence"] = found.confidence
    return answer


@contextmanager
def roomy(conn: Connection, rows: int) -> Iterator[None]:
    """A page cache that holds the indexes while many rows are written, and the usual one afterwards.

    The keys of trades are hashes, so each row touches pages all over an index; with the usual two megabytes every
    one of them is read, decrypted and written again, and the cost of a row grows with the journal."""
    usual = conn.exec_driver_sql("PRAGMA cache_size").scalar() if rows >= _MANY else None
    if usual is None:
        yield
        return
    conn.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
    try:
        yield
    finally:
        conn.exec_driver_sql(f"PRAGMA cache_size = {usual}")


def new_batch_id() -> str:
    return f"batch_{uuid.uuid4().hex}"


def same_file(conn: Connection, account_id: str, digest: str) -> bool:
    """Whether a file with these bytes has brought rows into the account before."""
    return (
        conn.execute(
            select(import_batches.c.batch_id)
            .where(
                import_batches.c.account_id == account_id,
                import_batches.c.file_sha256 == digest,
                import_batches.c.status != "FAILED",
            )
            .limit(1)
        ).first()
        is not None
    )


def record_batch(conn: Connection, answer: Mapping[str, Any], *, kind: str, actor: str, **more: Any) -> None:
    """Keep what an import answered."""
    names = ("batch_id", "account_id", "status", "total_rows", "parsed_rows", "skipped_rows", "error_rows", "imported")
    row = {name: answer[name] for name in names} | {
        "kind": kind,
        "detected_format": answer.get("detected_format", ""),
        "errors": answer["errors"],
        "warnings": answer["warnings"],
        "created_at": datetime.now(UTC),
        **more,
    }
    row["file_name"] = _file_name(row.get("file_name", ""))
    conn.execute(import_batches.insert().values(**row))
    audit.record(conn, actor, f"import.{kind}", "import_batch", row["batch_id"], imported=row["imported"])


def batches(conn: Connection, page: Page) -> dict[str, Any]:
    """The imports, newest first."""
    total = conn.execute(select(func.count()).select_from(import_batches)).scalar_one()
    rows = conn.execute(
        select(import_batches)
        .order_by(import_batches.c.created_at.desc(), import_batches.c.batch_id)
        .limit(page.limit)
        .offset(page.offset)
    ).mappings()
    return page.envelope([dict(row) for row in rows], total)


def render_errors(errors: Iterable[RowError]) -> list[dict[str, Any]]:
    return [msgspec.structs.asdict(error) for error in errors]


def render_notes(notes: Iterable[Note]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in msgspec.structs.asdict(note).items() if value is not None} for note in notes
    ]


def date_range(first: Any, last: Any) -> dict[str, Any] | None:
    return None if first is None or last is None else {"from": first.isoformat(), "to": last.isoformat()}


def _with_tickers(conn: Connection, found: BrokerImport) -> BrokerImport:
    """Securities that a file names by number under their tickers, where those are known without a request."""
    keys = list({draft.identifier for draft in found.trades if draft.identifier is not None})
    if not keys:
        return found
    known = known_here(conn, keys, datetime.now(UTC))
    named = tuple(
        msgspec.structs.replace(draft, symbol=known[draft.identifier].ticker, dedup_hash="")
        if draft.identifier in known
        else draft
        for draft in found.trades
    )
    notes = found.warnings
    if len(known) == len(keys):
        notes = tuple(note for note in notes if note.code != "unresolved_identifiers")
    return msgspec.structs.replace(found, trades=named, warnings=notes)


def _storable(drafts: Sequence[TradeDraft]) -> tuple[list[TradeDraft], list[RowError]]:
    """The drafts as the journal writes them: its symbols, its decimal places; and those no column holds."""
    good: list[TradeDraft] = []
    bad: list[RowError] = []
    for draft in drafts:
        problem = _unstorable(draft)
        if problem is None:
            good.append(_normal(draft))
        else:
            bad.append(RowError(row_number=draft.row_number, field=problem[0], message=problem[1]))
    return good, bad


def _unstorable(draft: TradeDraft) -> tuple[str, str] | None:
    for name in ("quantity", "price", "multiplier", "commission", "fees"):
        if abs(getattr(draft, name)) > _LARGEST:
            return name, f"is above {_LARGEST}"
    with localcontext(prec=60):
        if draft.quantity * abs(draft.price) * draft.multiplier > trades.LARGEST_VALUE:
            return "quantity", f"quantity times price is above {trades.LARGEST_VALUE}"
    if draft.price < 0 and draft.asset_class is not DraftAsset.FUTURE:
        return "price", "is negative, which only a future's can be"
    if quantity(draft.quantity) <= 0:
        return "quantity", "is smaller than the journal's smallest unit"
    return None


def _normal(draft: TradeDraft) -> TradeDraft:
    what = _instrument(draft)
    size, price = quantity(draft.quantity), quantity(draft.price)
    core: dict[str, Any] = {
        "account_id": draft.account_id,
        "symbol": what.symbol,
        "exec_time": draft.exec_time,
        "side": draft.side,
        "quantity": size,
        "price": price,
    }
    is_same = bool(draft.dedup_hash) and (what.symbol, size, price) == (draft.symbol, draft.quantity, draft.price)
    own = draft.exec_id.strip()
    is_name = 0 < len(own) <= _LONGEST_ID and own.isprintable() and own not in (".", "..")
    costs = (quantity(draft.multiplier), money(draft.commission), money(draft.fees))
    if is_same and is_name and own == draft.exec_id and costs == (draft.multiplier, draft.commission, draft.fees):
        return draft  # as most are; a copy of each would be most of an import's memory
    made = own if is_name else dedup.exec_id(broker=draft.broker, occurrence=draft.occurrence, **core)
    return msgspec.structs.replace(
        draft,
        exec_id=made,
        is_synthesised=draft.is_synthesised or not is_name,
        symbol=what.symbol,
        quantity=size,
        price=price,
        multiplier=costs[0],
        commission=costs[1],
        fees=costs[2],
        dedup_hash=draft.dedup_hash if is_same else dedup.fingerprint(**core),
    )


def _instrument(draft: TradeDraft) -> Instrument:
    """What the file traded, with the multiplier that it told."""
    return _instrument_of(draft.symbol, draft.asset_class.value, draft.multiplier)


@functools.lru_cache(maxsize=4096)  # a file names few instruments and names them often
def _instrument_of(symbol: str, kind: AssetClass, multiplier: Decimal) -> Instrument:
    try:
        parsed = parse_instrument(symbol, kind)
    except ValueError:
        return Instrument(symbol, kind, symbol, multiplier)
    return parsed._replace(multiplier=multiplier)


def _settle_fees(conn: Connection, drafts: list[TradeDraft]) -> tuple[list[TradeDraft], list[RowError]]:
    """The drafts with their costs in the currency of the trade; those whose costs no known rate brings there."""
    good: list[TradeDraft] = []
    bad: list[RowError] = []
    exchange = RateBook(conn)
    for draft in drafts:
        paid_in, day = draft.fee_currency, trade_date(draft.exec_time)
        if not paid_in or paid_in == draft.currency or not (draft.commission or draft.fees):
            good.append(draft)
            continue
        if draft.fx_rate is not None and draft.base_currency == paid_in:
            rate = divide(1, draft.fx_rate)
        else:
            rate = exchange.rate(paid_in, draft.currency, day)
        if rate is None and draft.asset_class == "FOREX" and draft.symbol == f"{paid_in}/{draft.currency}":
            rate = draft.price  # the pair itself says what one is worth in the other
        if rate is None:
            text = f"is in {paid_in} and the trade in {draft.currency}, and there is no rate for {day}. {HOW_TO_GIVE}."
            bad.append(RowError(row_number=draft.row_number, field="commission", message=text))
            continue
        good.append(_with_fees(draft, rate))
    return good, bad


def _with_fees(draft: TradeDraft, rate: Decimal) -> TradeDraft:
    with localcontext(prec=60):
        commission, fees = money(draft.commission * rate), money(draft.fees * rate)
    return msgspec.structs.replace(draft, commission=commission, fees=fees, ledger=(), fee_currency="")


def _drafts(
    new: Sequence[TradeDraft], batch_id: str, source: str, broker: str | None, progress: Callable[[int, int], None]
) -> Iterator[trades.Draft]:
    """Made one by one as they are written; the rows are half of the work, the matching of round trips is the rest."""
    for number, draft in enumerate(new):
        if number % _STEP == 0:
            progress(number, 2 * len(new))
        yield _draft(draft, batch_id, source, broker)
    progress(1, 2)


def _draft(draft: TradeDraft, batch_id: str, source: str = "import", broker: str | None = None) -> trades.Draft:
    charges = tuple(
        trades.TradeFee(fee.fee_type.value, money(fee.amount), fee.description) for fee in draft.ledger if fee.amount
    )
    adds_up = sum((charge.amount for charge in charges), Decimal(0)) == draft.commission + draft.fees
    return trades.Draft(
        exec_id=draft.exec_id,
        time=draft.exec_time,
        instrument=(draft.instrument.strip() or draft.symbol)[:128],
        what=_instrument(draft),
        action=draft.side.value,
        quantity=draft.quantity,
        price=draft.price,
        account_id=draft.account_id,
        commission=draft.commission,
        fees=draft.fees,
        realized_pnl=money(draft.realized_pnl) if draft.realized_pnl is not None else Decimal(0),
        notes=_notes(draft),
        multiplier=draft.multiplier,
        order_id=(draft.order_id or "")[:_LONGEST_ID] or None,
        broker=(broker or draft.broker)[:64],
        source=source,
        import_batch_id=batch_id,
        charges=charges if adds_up else (),
        currency=currency_of("", draft.asset_class.value, _instrument(draft).symbol, draft.currency),
        fx_rate=draft.fx_rate,
        fx_base=draft.base_currency,
        sequence=draft.sequence,
    )


def _notes(draft: TradeDraft) -> str:
    parts = [draft.notes]
    if draft.strategy:
        parts.append(f"Strategy: {draft.strategy}.")
    parts += [f"{name} {value} by the broker." for name, value in (("MAE", draft.mae), ("MFE", draft.mfe)) if value]
    return " ".join(part for part in parts if part)


def _update_fees(conn: Connection, found: SortedTrades, held: Mapping[str, Held], actor: str) -> int:
    """Fees that a later file knows better. One without fees knows nothing, and one that only divides the same sum
    in another way is no news; so files of two layouts do not overwrite each other in turn."""
    updated = 0
    for exec_id, draft in found.fee_updates:
        before = held[exec_id].trade
        total = draft.commission + draft.fees
        if not total or total == before.commission + before.fees:
            continue
        changes = {"commission": draft.commission, "fees": draft.fees}
        trades.change(conn, exec_id, changes, None, actor=actor, auto_create=False)
        trades.itemise(conn, exec_id, _draft(draft, "").charges)
        updated += 1
    return updated


def _elsewhere(counts: Mapping[str, int], account_id: str) -> str:
    where = ", ".join(f"{count} in {account}" for account, count in sorted(counts.items()))
    return f"Some executions are recorded in another account already ({where}); they were not added to {account_id}."


def _file_name(name: str) -> str:
    """The last part of what the caller called the file, for reading only."""
    base = name.replace("\\", "/").rpartition("/")[2]
    return "".join(char for char in base if char.isprintable())[:255]


def _render_draft(draft: TradeDraft) -> dict[str, Any]:
    return {
        "exec_id": draft.exec_id,
        "time": draft.exec_time,
        "symbol": draft.symbol,
        "asset_class": draft.asset_class.value,
        "action": draft.side.value,
        "quantity": draft.quantity,
        "price": draft.price,
        "commission": draft.commission,
        "fees": draft.fees,
        "currency": draft.currency,
        "row_number": draft.row_number,
    }
