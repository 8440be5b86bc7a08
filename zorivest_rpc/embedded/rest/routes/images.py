"""`/images` and the pictures of trades, reports and plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from sqlalchemy import Connection

from ...errors import Invalid
from ...journal import images, pictures, plans, trades
from ...journal import reports as journal
from ...values.fields import Fields
from ...values.inputs import row_number
from ..routing import READ, WRITE, Ask, Route, no_content, reply

__all__ = ["ROUTES"]

_BODY = pictures.LARGEST_FILE + 1024 * 1024  # the file, and the form around it

Owner = Callable[[Connection, str], str]
"""Checks that the owner of a path exists and gives the id under which its pictures are kept."""


def _trade(conn: Connection, name: str) -> str:
    return str(trades.require(conn, name)["exec_id"])


def _report(conn: Connection, name: str) -> str:
    return str(journal.report(conn, name)["id"])


def _plan(conn: Connection, name: str) -> str:
    return str(plans.shown(conn, row_number("trade plan", name))["id"])


def _attach(owner_type: str, owner: Owner) -> Callable[[Ask], Awaitable[web.StreamResponse]]:
    async def handler(ask: Ask) -> web.StreamResponse:
        name, actor = ask.path["owner"], ask.session.actor
        await ask.db.read(lambda conn: owner(conn, name))  # before ten megabytes are decoded for nobody
        form = await ask.form(pictures.LARGEST_FILE)
        fields = Fields(form.fields)
        caption = fields.text("caption", "", most=2000)
        fields.done()
        if "file" not in form.files:
            raise Invalid({"file": ["is required"]})
        picture = await ask.backend.work("pictures", lambda: pictures.prepare(form.files["file"].data))
        stored = await ask.db.write(
            lambda conn: images.attach(conn, owner_type, owner(conn, name), picture, caption, actor)
        )
        shown = ("width", "height", "file_size", "mime_type", "thumbnail_url", "caption", "created_at")
        return reply({"image_id": stored["id"], **{key: stored[key] for key in shown}}, 201)

    return handler


def _list(owner_type: str, owner: Owner) -> Callable[[Ask], Awaitable[web.StreamResponse]]:
    async def handler(ask: Ask) -> web.StreamResponse:
        name = ask.path["owner"]
        return reply(await ask.db.read(lambda conn: images.listed(conn, owner_type, owner(conn, name))))

    return handler


async def show(ask: Ask) -> web.StreamResponse:
    image_id = _id(ask)
    return reply(await ask.db.read(lambda conn: images.shown(conn, image_id)))


async def thumbnail(ask: Ask) -> web.StreamResponse:
    """The stored thumbnail; another size is made from the picture."""
    image_id = _id(ask)
    fields = Fields(ask.query)
    largest = fields.integer("max_size", pictures.THUMBNAIL_SIDE, least=16, most=1024)
    fields.done()
    if largest == pictures.THUMBNAIL_SIDE:
        return _webp(await ask.db.read(lambda conn: images.thumbnail_of(conn, image_id)))
    data = await ask.db.read(lambda conn: images.data_of(conn, image_id))
    return _webp(await ask.backend.work("pictures", lambda: pictures.resized(data, largest)))


async def full(ask: Ask) -> web.StreamResponse:
    image_id = _id(ask)
    fields = Fields(ask.query)
    largest = fields.integer("max_dim", None, least=16, most=pictures.LARGEST_SIDE)
    fields.done()
    data = await ask.db.read(lambda conn: images.data_of(conn, image_id))
    return _webp(
        data if largest is None else await ask.backend.work("pictures", lambda: pictures.resized(data, largest))
    )


async def delete(ask: Ask) -> web.StreamResponse:
    image_id, actor = _id(ask), ask.session.actor
    await ask.db.write(lambda conn: images.delete(conn, image_id, actor))
    return no_content()


def _id(ask: Ask) -> int:
    return row_number("image", ask.path["image_id"])


def _webp(data: bytes) -> web.Response:
    return web.Response(body=data, content_type="image/webp")


ROUTES = (
    Route("GET", "/trades/{owner}/images", READ, _list("trade", _trade)),
    Route("POST", "/trades/{owner}/images", WRITE, _attach("trade", _trade), _BODY),
    Route("GET", "/trades/{owner}/report/images", READ, _list("report", _report)),
    Route("POST", "/trades/{owner}/report/images", WRITE, _attach("report", _report), _BODY),
    Route("GET", "/trade-plans/{owner}/images", READ, _list("plan", _plan)),
    Route("POST", "/trade-plans/{owner}/images", WRITE, _attach("plan", _plan), _BODY),
    Route("GET", "/images/{image_id}", READ, show),
    Route("GET", "/images/{image_id}/thumbnail", READ, thumbnail),
    Route("GET", "/images/{image_id}/full", READ, full),
    Route("DELETE", "/images/{image_id}", WRITE, delete),
)
