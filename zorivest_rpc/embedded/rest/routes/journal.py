"""Reports on trades, `/journal`, and the links between the two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ...journal import reports as journal
from ...values.fields import Fields
from ...values.inputs import identifier
from ...values.resource import Field, Resource, flag, text
from ..routing import READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]


def _grade(fields: Fields, name: str, default: Any) -> int:
    """A letter, or its number from 1 to 5."""
    value = fields.raw(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return fields.integer(name, least=1, most=5)
    return journal.GRADES.get(fields.choice(name, journal.GRADES), 1)


def _state(fields: Fields, name: str, default: Any) -> str:
    return str(fields.text(name, default, least=1, most=64)).strip().lower()


def _tags(fields: Fields, name: str, default: Any) -> list[str]:
    """Trimmed, each once."""
    return list(dict.fromkeys(tag.strip() for tag in fields.texts(name, default) or () if tag.strip()))


REPORT = Resource(
    Field("setup_quality", _grade),
    Field("execution_quality", _grade),
    Field("followed_plan", flag),
    Field("emotional_state", _state, "neutral"),
    Field("lessons_learned", text(), ""),
    Field("tags", _tags, ()),
)


async def create_report(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    fields = Fields(await ask.json())
    values = REPORT.read(fields)
    fields.done()
    return reply(await ask.db.write(lambda conn: journal.add_report(conn, exec_id, values, actor)), 201)


async def show_report(ask: RestCall) -> web.StreamResponse:
    exec_id = ask.path["exec_id"]
    return reply(await ask.db.read(lambda conn: journal.report(conn, exec_id)))


async def change_report(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    fields = Fields(await ask.json())
    changes = REPORT.read_changes(fields)
    fields.done()
    return reply(await ask.db.write(lambda conn: journal.change_report(conn, exec_id, changes, actor)))


async def delete_report(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    await ask.db.write(lambda conn: journal.delete_report(conn, exec_id, actor))
    return no_content()


async def link(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    fields = Fields(await ask.json())
    entry_id = fields.text("journal_entry_id", least=1, most=128).strip()
    fields.done()
    return reply(await ask.db.write(lambda conn: journal.link(conn, exec_id, entry_id, actor)))


async def create_entry(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(await ask.json())
    entry_id = identifier(fields, "entry_id", None)
    title = fields.text("title", least=1, most=300)
    text = fields.text("body", most=100_000)
    day = fields.day("entry_date", datetime.now(UTC).date())
    tags = _tags(fields, "tags", [])
    fields.done()
    return reply(
        await ask.db.write(
            lambda conn: journal.add_entry(
                conn, entry_id=entry_id, title=title, body=text, entry_date=day, tags=tags, actor=actor
            )
        ),
        201,
    )


async def show_entry(ask: RestCall) -> web.StreamResponse:
    entry_id = ask.path["entry_id"]
    return reply(await ask.db.read(lambda conn: journal.entry(conn, entry_id)))


ROUTES = (
    Route("POST", "/trades/{exec_id}/report", WRITE, create_report),
    Route("GET", "/trades/{exec_id}/report", READ, show_report),
    Route("PUT", "/trades/{exec_id}/report", WRITE, change_report),
    Route("DELETE", "/trades/{exec_id}/report", WRITE, delete_report),
    Route("POST", "/trades/{exec_id}/journal-link", WRITE, link),
    Route("POST", "/journal", WRITE, create_entry),
    Route("GET", "/journal/{entry_id}", READ, show_entry),
)
