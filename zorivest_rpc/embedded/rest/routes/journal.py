"""Reports on trades, `/journal`, and the links between the two."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ...journal import reports as journal
from ...values.fields import Fields
from ...values.inputs import identifier
from ..routing import READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]


async def create_report(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    body = await ask.json()
    fields = Fields(body)
    values = {
        "setup_quality": _grade(fields, body, "setup_quality"),
        "execution_quality": _grade(fields, body, "execution_quality"),
        "followed_plan": fields.flag("followed_plan"),
        "emotional_state": fields.text("emotional_state", "neutral", least=1, most=64).strip().lower(),
        "lessons_learned": fields.text("lessons_learned", ""),
        "tags": _tags(fields.texts("tags", [])),
    }
    fields.done()
    return reply(await ask.db.write(lambda conn: journal.add_report(conn, exec_id, values, actor)), 201)


async def show_report(ask: RestCall) -> web.StreamResponse:
    exec_id = ask.path["exec_id"]
    return reply(await ask.db.read(lambda conn: journal.report(conn, exec_id)))


async def change_report(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    body = await ask.json()
    fields = Fields(body)
    state = fields.text("emotional_state", None, least=1, most=64)
    tags = fields.texts("tags", None)
    wanted: dict[str, Any] = {
        **{
            name: _grade(fields, body, name)
            for name in ("setup_quality", "execution_quality")
            if body.get(name) is not None
        },
        "followed_plan": fields.flag("followed_plan", None),
        "emotional_state": None if state is None else state.strip().lower(),
        "lessons_learned": fields.text("lessons_learned", None),
        "tags": None if tags is None else _tags(tags),
    }
    fields.done()
    changes = {name: value for name, value in wanted.items() if value is not None}
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
    tags = _tags(fields.texts("tags", []))
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


def _grade(fields: Fields, body: dict[str, Any], name: str) -> int:
    """A letter, or its number from 1 to 5."""
    value = body.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        return fields.integer(name, least=1, most=5)
    return journal.GRADES.get(fields.choice(name, journal.GRADES), 1)


def _tags(tags: list[str]) -> list[str]:
    """Trimmed, each once."""
    return list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))


ROUTES = (
    Route("POST", "/trades/{exec_id}/report", WRITE, create_report),
    Route("GET", "/trades/{exec_id}/report", READ, show_report),
    Route("PUT", "/trades/{exec_id}/report", WRITE, change_report),
    Route("DELETE", "/trades/{exec_id}/report", WRITE, delete_report),
    Route("POST", "/trades/{exec_id}/journal-link", WRITE, link),
    Route("POST", "/journal", WRITE, create_entry),
    Route("GET", "/journal/{entry_id}", READ, show_entry),
)
