"""What was entered for each broker, with its secrets encrypted, and how its last sync went."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from ..database.schema.brokers import broker_configs
from ..database.schema.journal import accounts
from .registry import BROKERS, LOCAL_FOLDER, Broker

__all__ = ["Config", "brokers_configured", "list_configs", "read_all", "read_one", "write"]


class Config(msgspec.Struct, frozen=True):
    """What was entered for a broker; secrets stay encrypted until a request needs them."""

    encrypted_key: str | None = None
    encrypted_secret: str | None = None
    account_id: str | None = None
    options: Mapping[str, str] = {}
    is_enabled: bool = True
    last_sync: datetime | None = None
    last_status: str | None = None
    cursor: str | None = None

    def missing(self, broker: Broker) -> list[str]:
        """What has to be entered before this broker can be synced."""
        given = {
            "api_key": self.encrypted_key,
            "api_secret": self.encrypted_secret,
            "account_id": self.account_id,
            "query_id": self.options.get("query_id"),
        }
        return [name for name in broker.needs if not given[name]]

    def usable(self, broker: Broker) -> bool:
        return broker.adapter is not None and self.is_enabled and not self.missing(broker)


def read_one(conn: Connection, broker: Broker) -> Config:
    row = conn.execute(select(broker_configs).where(broker_configs.c.broker_id == broker.broker_id)).first()
    return Config() if row is None else _read(row)


def _read(row: Any) -> Config:
    return Config(
        row.encrypted_api_key,
        row.encrypted_api_secret,
        row.account_id,
        row.options or {},
        row.is_enabled,
        row.last_sync,
        row.last_status,
        row.cursor,
    )


def read_all(conn: Connection) -> list[tuple[Broker, Config]]:
    """Every broker with what was entered for it."""
    rows = {row.broker_id: _read(row) for row in conn.execute(select(broker_configs))}
    return [(broker, rows.get(broker.broker_id, Config())) for broker in BROKERS]


def write(conn: Connection, broker: Broker, values: Mapping[str, Any], now: datetime) -> None:
    place = broker_configs.c.broker_id == broker.broker_id
    if not conn.execute(broker_configs.update().where(place).values(**values, updated_at=now)).rowcount:
        conn.execute(
            broker_configs.insert().values(broker_id=broker.broker_id, created_at=now, updated_at=now, **values)
        )


def list_configs(conn: Connection) -> list[dict[str, Any]]:
    owned: dict[str, list[str]] = {}
    for broker_id, account_id in conn.execute(
        select(accounts.c.broker_id, accounts.c.account_id)
        .where(accounts.c.broker_id.is_not(None))
        .order_by(accounts.c.account_id)
    ):
        owned.setdefault(broker_id, []).append(account_id)
    found = []
    for broker, config in read_all(conn):
        named = [config.account_id] if config.account_id else []
        found.append(
            {
                "broker_id": broker.broker_id,
                "name": broker.name,
                "last_sync": config.last_sync,
                "configured": config.usable(broker),
                "environment": broker.environment,
                "routing_type": broker.routing_type,
                "supports": list(broker.supports),
                "needs": config.missing(broker),
                "last_status": config.last_status,
                "account_ids": sorted({*named, *owned.get(broker.broker_id, [])}),
            }
        )
    return found


def brokers_configured() -> Select[int]:
    """How many brokers can be synced; the folder is one of them unless it was switched off."""
    table = broker_configs
    keyed = select(func.count()).where(table.c.is_enabled, table.c.encrypted_api_key.is_not(None)).scalar_subquery()
    off = select(func.count()).where(table.c.broker_id == LOCAL_FOLDER.broker_id, ~table.c.is_enabled).scalar_subquery()
    return select(keyed + 1 - off)
