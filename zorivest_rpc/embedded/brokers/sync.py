"""One sync: from a broker's connection to trades in the journal, and a true account of what came and what did not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ..database import audit
from ..database.columns import money
from ..database.engine import Database
from ..database.schema.journal import accounts, round_trips
from ..errors import BadUpstream, Conflict, NotFound, Refusal, TooMany, Unavailable
from ..imports.drafts import BankImport
from ..imports.stored import bank as bank_store
from ..imports.stored import trades as import_store
from ..journal import accounts as account_store
from ..market.failures import Failure, Kind
from ..market.outbound import Outbound, Reach
from ..settings import JournalSettings
from ..values.futures import SETTING as FUTURE_MULTIPLIERS
from ..values.futures import parse_multipliers
from ..vault.crypto import FieldCipher
from . import alpaca, ibkr_flex, local_folder, tradier
from .configs import Config, list_configs, read_one, write
from .pulled import BrokerLink, Position, Pulled, PullWindow
from .registry import LOCAL_FOLDER, Broker, find_broker

__all__ = ["ADDRESSES", "Brokers", "require_broker"]

log = logging.getLogger("zorivest.accounts")

OVERLAP = timedelta(days=3)
"""How far before the last fill the next sync begins: brokers book late, and what is held is not written twice."""

TIMEOUT = 30.0
_MOST_ERRORS = 100
_RATES = {"alpaca": 200, "tradier": 120, "ibkr_flex": 10}
ADDRESSES = {
    "alpaca_live": ("alpaca", "https://api.alpaca.markets"),
    "alpaca_paper": ("alpaca_paper", "https://paper-api.alpaca.markets"),
    "tradier_live": ("tradier", "https://api.tradier.com"),
    "tradier_sandbox": ("tradier_sandbox", "https://sandbox.tradier.com"),
    "ibkr_pro": ("ibkr_flex", "https://ndcdyn.interactivebrokers.com/AccountManagement/FlexWebService"),
    "ibkr_lite": ("ibkr_flex", "https://ndcdyn.interactivebrokers.com/AccountManagement/FlexWebService"),
}


class BatchResult(msgspec.Struct, frozen=True):
    """What one batch did to the journal."""

    batch_id: str = ""
    imported: int = 0
    duplicates: int = 0
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Brokers:
    """The broker connections of one open database; made per request."""

    def __init__(
        self, db: Database, settings: JournalSettings, cipher: FieldCipher, outbound: Outbound, folder: Path
    ) -> None:
        self._db = db
        self._settings = settings
        self._cipher = cipher
        self._outbound = outbound
        self._folder = folder

    async def list_configs(self) -> list[dict[str, Any]]:
        return await self._db.read(list_configs)

    async def configure(self, broker_id: str, values: Mapping[str, Any], actor: str) -> None:
        """Set what was given; secrets are encrypted before they reach the database."""
        broker, now = require_broker(broker_id), self._outbound.now()
        sealed = {name: value for name, value in values.items() if name in ("account_id", "is_enabled")}
        for name in ("api_key", "api_secret"):
            if name in values:
                sealed[f"encrypted_{name}"] = self._cipher.encrypt(values[name])

        def job(conn: Connection) -> None:
            options = dict(read_one(conn, broker).options)
            if "query_id" in values:
                options["query_id"] = values["query_id"]
            write(conn, broker, {**sealed, "options": options}, now)
            told = sorted(name for name in values if name != "api_secret")
            audit.record(conn, actor, "broker.configure", "broker", broker.broker_id, changed=told)

        await self._db.write(job)

    async def disconnect(self, broker_id: str, actor: str) -> dict[str, Any]:
        """Delete what was entered for good; what has nothing to delete is switched off."""
        broker, now = require_broker(broker_id), self._outbound.now()
        gone: dict[str, Any] = {"encrypted_api_key": None, "encrypted_api_secret": None, "account_id": None}
        gone |= {"options": {}, "cursor": None, "last_status": None, "is_enabled": bool(broker.credentials)}

        def job(conn: Connection) -> None:
            write(conn, broker, gone, now)
            audit.record(conn, actor, "broker.disconnect", "broker", broker.broker_id)

        await self._db.write(job)
        return {"status": "removed", "broker_id": broker.broker_id}

    async def positions(self, broker_id: str) -> list[dict[str, Any]]:
        broker = require_broker(broker_id)
        config = await self._usable(broker)
        if broker is LOCAL_FOLDER:
            return await self._db.read(_held_positions)
        try:
            link = await self._link(broker, config)
            if broker.adapter == "alpaca":
                return [_render_position(position) for position in await alpaca.positions(link)]
            if broker.adapter == "tradier":
                return [_render_position(position) for position in await tradier.positions(link)]
        except Failure as failure:
            raise _refusal(failure) from None
        raise Conflict(
            "positions_not_supported", f"{broker.name} gives trades, not positions; sync_broker fetches them."
        )

    async def sync(self, broker_id: str, start: datetime | None, end: datetime | None, actor: str) -> dict[str, Any]:
        broker = require_broker(broker_id)
        config = await self._usable(broker)
        started = self._outbound.now()
        since = start
        if since is None and config.cursor is not None:
            since = datetime.fromisoformat(config.cursor) - OVERLAP
        given = parse_multipliers(await self._settings.value(FUTURE_MULTIPLIERS))
        wanted = PullWindow(since, end, await self._settings.value("import.timezone"), multipliers=given)
        try:
            pulled = (await self._pull(broker, config, wanted)).within(start, end)
        except Failure as failure:
            log.warning("sync of %s: %s", broker.broker_id, failure)
            await self._db.write(lambda conn: write(conn, broker, {"last_status": "failed"}, started))
            raise _refusal(failure) from None
        auto_create = bool(await self._settings.value("accounts.auto_create"))
        written = await self._db.write(
            lambda conn: _keep(
                conn, broker, pulled, actor=actor, now=started, auto_create=auto_create, zone=wanted.timezone
            )
        )
        return await self._summarise(broker, pulled, written, started)

    async def _summarise(
        self, broker: Broker, pulled: Pulled, written: list[BatchResult], started: datetime
    ) -> dict[str, Any]:
        now = self._outbound.now()
        errors = [*pulled.problems, *(error for batch in written for error in batch.errors)]
        imported, repeated = sum(one.imported for one in written), sum(one.duplicates for one in written)
        status = "success" if not errors else ("partial" if imported or repeated else "failed")
        changes: dict[str, Any] = {"last_status": status}
        if status != "failed":
            changes["last_sync"] = now
            if pulled.cursor is not None:
                changes["cursor"] = pulled.cursor.isoformat()
        await self._db.write(lambda conn: write(conn, broker, changes, now))
        log.info("sync of %s: %s, %d new, %d known", broker.broker_id, status, imported, repeated)
        account = {"balance": pulled.balance and money(pulled.balance), "currency": pulled.currency}
        return {
            "broker_id": broker.broker_id,
            "status": status,
            "imported": imported,
            "duplicates_skipped": repeated,
            "errors": errors[:_MOST_ERRORS],
            "warnings": sorted({warning for batch in written for warning in batch.warnings})[:_MOST_ERRORS],
            "account": {name: value for name, value in account.items() if value is not None},
            "positions": len(pulled.positions),
            "batches": [batch.batch_id for batch in written if batch.batch_id],
            "started_at": started,
            "completed_at": now,
            "last_sync": changes.get("last_sync"),
        }

    async def _usable(self, broker: Broker) -> Config:
        if broker.adapter is None:
            raise Conflict(
                "broker_not_configured",
                f"{broker.name} has no connection here; its trades come as files: use import_broker_csv or "
                "import_broker_pdf, or put the files into the imports folder and sync local_folder.",
            )
        config = await self._db.read(lambda conn: read_one(conn, broker))
        if not config.is_enabled:
            raise Conflict(
                "broker_not_configured", f"{broker.name} is switched off; a person switches it on: {_connect(broker)}."
            )
        if missing := config.missing(broker):
            raise Conflict(
                "broker_not_configured",
                f"{broker.name} is not set up: {', '.join(missing)} missing. A person enters it: {_connect(broker)}; "
                "files can be imported without it.",
                missing=missing,
            )
        return config

    async def _link(self, broker: Broker, config: Config) -> BrokerLink:
        if await self._settings.value("market.offline"):
            raise Failure(broker.name, Kind.OFFLINE, "market.offline forbids network requests")
        try:
            key = self._cipher.decrypt(config.encrypted_key or "")
            secret = self._cipher.decrypt(config.encrypted_secret or "")
        except ValueError:
            raise Failure(
                broker.name, Kind.NO_KEY, "its stored key cannot be decrypted; enter it again: " + _connect(broker)
            ) from None
        address, default = ADDRESSES[broker.broker_id]
        headers, params = _credentials(broker, key, secret)
        assert broker.adapter is not None
        reach = Reach(
            broker.name,
            _RATES[broker.adapter],
            TIMEOUT,
            tuple(filter(None, (key, secret))),
            1 if broker.adapter == "ibkr_flex" else None,
            headers,
            params,
        )
        base = self._outbound.address(address, default)
        return BrokerLink(self._outbound, reach, base, config.account_id, config.options)

    async def _pull(self, broker: Broker, config: Config, wanted: PullWindow) -> Pulled:
        if broker is LOCAL_FOLDER:
            return await self._pull_files(wanted)
        link = await self._link(broker, config)
        match broker.adapter:
            case "alpaca":
                return await alpaca.pull(link, wanted)
            case "tradier":
                return await tradier.pull(link, wanted)
            case _:
                return await ibkr_flex.pull(link, wanted)

    async def _pull_files(self, wanted: PullWindow) -> Pulled:
        loop = asyncio.get_running_loop()

        def known(sha256: str, account_id: str) -> bool:
            job = self._db.read(lambda conn: import_store.same_file(conn, account_id, sha256))
            return asyncio.run_coroutine_threadsafe(job, loop).result()

        return await asyncio.to_thread(local_folder.pull, self._folder, wanted, known)


def require_broker(broker_id: str) -> Broker:
    broker = find_broker(broker_id)
    if broker is None:
        raise NotFound("broker", broker_id[:100], "list_brokers gives the ids.")
    return broker


def _connect(broker: Broker) -> str:
    return f"zorivest-rpc connect broker {broker.broker_id}"


def _credentials(broker: Broker, key: str, secret: str) -> tuple[dict[str, str], dict[str, str]]:
    """Where a broker wants its key: headers, parameters."""
    match broker.adapter:
        case "alpaca":
            return {"APCA-API-KEY-ID": key, "APCA-API-SECRET-KEY": secret}, {}
        case "tradier":
            return {"Authorization": f"Bearer {key}"}, {}
        case _:
            return {"Accept": "application/xml", "User-Agent": "Python/3 zorivest-rpc"}, {"t": key}


def _refusal(failure: Failure) -> Refusal:
    """429 for a rate limit, 503 when the broker was not reached, 502 for an answer that cannot be used."""
    text = f"{failure.provider}: {failure.detail}."
    extra: dict[str, Any] = {"reason": failure.kind.value}
    if failure.kind is Kind.RATE_LIMITED:
        if failure.retry_after is not None:
            extra["retry_after"] = int(failure.retry_after) + 1
        return TooMany("rate_limited", text, **extra)
    if failure.kind in (Kind.OFFLINE, Kind.UNREACHABLE, Kind.TIMEOUT):
        return Unavailable("offline" if failure.kind is not Kind.TIMEOUT else "timeout", text, **extra)
    return BadUpstream("broker_refused", text, **extra)


def _keep(
    conn: Connection, broker: Broker, pulled: Pulled, *, actor: str, now: datetime, auto_create: bool, zone: str
) -> list[BatchResult]:
    """Every batch whole or not at all."""
    owner = None if broker is LOCAL_FOLDER else broker.broker_id
    written = []
    for source in pulled.sources:
        name = source.file_name or source.found.account_id
        try:
            with conn.begin_nested():
                who: Any = {"file_name": source.file_name, "actor": actor, "auto_create": auto_create}
                if isinstance(source.found, BankImport):
                    answer = bank_store.store(conn, source.found, **who)
                else:
                    answer = import_store.store(
                        conn, source.found, kind="sync", source="sync", broker=owner, zone=zone, **who
                    )
        except Refusal as refusal:  # an account that cannot be written to
            written.append(BatchResult(errors=(f"{name}: {refusal}",)))
        else:
            written.append(_summarise(answer))
    if owner is not None and pulled.account_id is not None:
        conn.execute(
            accounts.update()
            .where(accounts.c.account_id == pulled.account_id, accounts.c.broker_id.is_(None))
            .values(broker_id=owner)
        )
    account = None if pulled.account_id is None else account_store.find(conn, pulled.account_id)
    if account is not None and pulled.account_id is not None and pulled.balance is not None:
        if pulled.currency not in (None, account["currency"]):
            text = f"The balance is in {pulled.currency} and the account in {account['currency']}; it was not taken."
            written.append(BatchResult(warnings=(text,)))
            return written
        account_store.record_balance(conn, pulled.account_id, money(pulled.balance), now, actor, "sync")
    return written


def _summarise(answer: Mapping[str, Any]) -> BatchResult:
    """The importer's answer in the words of a sync."""
    errors = [
        (f"row {error['row_number']}, " if error["row_number"] is not None else "")
        + f"{error['field']}: {error['message']}"
        for error in answer["errors"]
    ]
    # the same fills come again with every sync that overlaps the last one
    warnings = [warning["message"] for warning in answer["warnings"] if warning["code"] != "same_file"]
    repeated = answer["duplicates"] if "duplicates" in answer else answer["duplicates_skipped"]
    return BatchResult(answer["batch_id"], answer["imported"], repeated, tuple(errors), tuple(warnings))


def _held_positions(conn: Connection) -> list[dict[str, Any]]:
    """What the journal says is open in accounts that no broker connection keeps."""
    rows = conn.execute(
        select(round_trips)
        .join(accounts, accounts.c.account_id == round_trips.c.account_id)
        .where(round_trips.c.status != "closed", accounts.c.broker_id.is_(None))
        .order_by(round_trips.c.instrument, round_trips.c.account_id)
    )
    return [
        {
            "symbol": row.instrument,
            "quantity": row.open_quantity if row.direction == "BOT" else -row.open_quantity,
            "avg_price": row.entry_avg_price,
            "account_id": row.account_id,
        }
        for row in rows
    ]


def _render_position(position: Position) -> dict[str, Any]:
    return msgspec.structs.asdict(position)
