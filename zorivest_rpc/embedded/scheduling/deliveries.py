"""Who got what: one row per report, channel, recipient and snapshot, so that nothing is delivered twice.

    claimed → sending → sent                  the usual way
            ↘ failed    ↘ uncertain
            ↘ refused

A row is claimed before the work and marked `sending` before the point of no return. `failed` may be tried again,
`refused` not before the next run, because the answer would be the same. A process that ends while sending leaves a row
whose message may have arrived: it becomes `uncertain` and is never sent again by itself, because a report that is
missing is noticed and told, while a second copy cannot be taken back."""

from __future__ import annotations

import hashlib
from datetime import datetime

from sqlalchemy import Connection, select

from ..database.schema.scheduling import report_deliveries

__all__ = ["claim", "cut_off", "dedup_key", "recover", "settle"]


def dedup_key(report: str, channel: str, recipient: str, snapshot: str) -> str:
    return hashlib.sha256(f"{report}|{channel}|{recipient.lower()}|{snapshot}".encode()).hexdigest()


def claim(
    conn: Connection,
    key: str,
    run_id: str,
    report: str,
    channel: str,
    recipient: str,
    snapshot: str,
    now: datetime,
) -> str | None:
    """Take a delivery for this run; None if it is ours now, else the status that forbids it."""
    mine = report_deliveries.c.dedup_key == key
    found = conn.execute(select(report_deliveries.c.status, report_deliveries.c.run_id).where(mine)).first()
    if found is None:
        conn.execute(
            report_deliveries.insert().values(
                dedup_key=key,
                run_id=run_id,
                report=report[:200],
                channel=channel,
                recipient=recipient,
                snapshot_hash=snapshot,
                status="claimed",
                created_at=now,
                updated_at=now,
            )
        )
        return None
    another = found.run_id != run_id
    if (
        found.status == "failed"
        or (found.status == "claimed" and not another)
        or (found.status == "refused" and another)
    ):
        conn.execute(report_deliveries.update().where(mine).values(status="claimed", run_id=run_id, updated_at=now))
        return None
    return str(found.status)


def settle(conn: Connection, key: str, status: str, now: datetime, detail: str | None = None) -> None:
    changes = {"status": status, "detail": detail, "updated_at": now}
    conn.execute(report_deliveries.update().where(report_deliveries.c.dedup_key == key).values(**changes))


def cut_off(conn: Connection, key: str, now: datetime) -> None:
    """A delivery whose run was cancelled: it may be tried again only if its content was not sent."""
    status = conn.execute(select(report_deliveries.c.status).where(report_deliveries.c.dedup_key == key)).scalar()
    instead = {"claimed": "failed", "sending": "uncertain"}.get(status or "")
    if instead:
        settle(conn, key, instead, now, "the run was cancelled during the delivery")


def recover(conn: Connection, now: datetime) -> None:
    """After a start: no delivery is under way, so what looks like it was cut off."""
    for status, instead in (("claimed", "failed"), ("sending", "uncertain")):
        conn.execute(
            report_deliveries.update()
            .where(report_deliveries.c.status == status)
            .values(status=instead, detail="the process ended during the delivery", updated_at=now)
        )
