"""`/images` and the pictures of trades."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from sqlalchemy import Connection

from ...errors import Invalid
from ...journal import images, pictures, trades
from ...values.fields import Fields
from ...values.inputs import row_number
from ..routing import READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_BODY = pictures.LARGEST_FILE + 1024 * 1024  # the file, and the form around it


async def attach(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    await ask.db.read(lambda conn: trades.require(conn, exec_id))  # before ten megabytes are decoded for nothing
    form = await ask.form(pictures.LARGEST_FILE)
    fields = Fields(form.fields)
    caption = fields.text("caption", "", most=2000)
    fields.done()
    if "file" not in form.files:
        raise Invalid({"file": ["is required"]})
    picture = await ask.backend.work("pictures", lambda: pictures.prepare(form.files["file"].data))

    def job(conn: Connection) -> dict[str, Any]:
        return images.attach(conn, "trade", trades.require(conn, exec_id)["exec_id"], picture, caption, actor)

    stored = await ask.db.write(job)
    shown = ("width", "height", "file_size", "mime_type", "thumbnail_url", "caption", "created_at")
    return reply({"image_id": stored["id"], **{key: stored[key] for key in shown}}, 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    exec_id = ask.path["exec_id"]

    def job(conn: Connection) -> list[dict[str, Any]]:
        return images.list_images(conn, "trade", trades.require(conn, exec_id)["exec_id"])

    return reply(await ask.db.read(job))


async def show(ask: RestCall) -> web.StreamResponse:
    image_id = _id(ask)
    return reply(await ask.db.read(lambda conn: images.read_image(conn, image_id)))


async def thumbnail(ask: RestCall) -> web.StreamResponse:
    """The stored thumbnail; another size is made from the picture."""
    image_id = _id(ask)
    fields = Fields(ask.query)
    largest = fields.integer("max_size", pictures.THUMBNAIL_SIDE, least=16, most=1024)
    fields.done()
    if largest == pictures.THUMBNAIL_SIDE:
        return _webp(await ask.db.read(lambda conn: images.thumbnail_of(conn, image_id)))
    data = await ask.db.read(lambda conn: images.data_of(conn, image_id))
    return _webp(await ask.backend.work("pictures", lambda: pictures.resize(data, largest)))


async def full(ask: RestCall) -> web.StreamResponse:
    image_id = _id(ask)
    fields = Fields(ask.query)
    largest = fields.integer("max_dim", None, least=16, most=pictures.LARGEST_SIDE)
    fields.done()
    data = await ask.db.read(lambda conn: images.data_of(conn, image_id))
    return _webp(
        data if largest is None else await ask.backend.work("pictures", lambda: pictures.resize(data, largest))
    )


async def delete(ask: RestCall) -> web.StreamResponse:
    image_id, actor = _id(ask), ask.session.actor
    await ask.db.write(lambda conn: images.delete(conn, image_id, actor))
    return no_content()


def _id(ask: RestCall) -> int:
    return row_number("image", ask.path["image_id"])


def _webp(data: bytes) -> web.Response:
    return web.Response(body=data, content_type="image/webp")


ROUTES = (
    Route("GET", "/trades/{exec_id}/images", READ, list_all),
    Route("POST", "/trades/{exec_id}/images", WRITE, attach, _BODY),
    Route("GET", "/images/{image_id}", READ, show),
    Route("GET", "/images/{image_id}/thumbnail", READ, thumbnail),
    Route("GET", "/images/{image_id}/full", READ, full),
    Route("DELETE", "/images/{image_id}", WRITE, delete),
)
