"""The images table: pictures of trades, reports and plans, their bytes apart from what is known about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, select

from ..database import audit
from ..database.schema.journal import images
from ..errors import NotFound
from .pictures import Picture

__all__ = ["attach", "data_of", "delete", "list_images", "read_image", "thumbnail_of"]

_SHOWN = ("id", "owner_type", "owner_id", "caption", "mime_type", "file_size", "width", "height", "created_at")


def attach(
    conn: Connection, owner_type: str, owner_id: str, picture: Picture, caption: str, actor: str
) -> dict[str, Any]:
    """Store a prepared picture; the caller has checked that its owner exists."""
    row = {
        "owner_type": owner_type,
        "owner_id": owner_id,
        "mime_type": "image/webp",
        "caption": caption,
        "width": picture.width,
        "height": picture.height,
        "file_size": len(picture.data),
        "created_at": datetime.now(UTC),
    }
    added = conn.execute(
        images.insert().values(**row, thumbnail=picture.thumbnail, data=picture.data).returning(images.c.id)
    ).scalar_one()
    audit.record(conn, actor, "image.attach", owner_type, owner_id, image_id=added)
    return {**row, "id": added, "thumbnail_url": _thumbnail_url(added)}


def list_images(conn: Connection, owner_type: str, owner_id: str) -> list[dict[str, Any]]:
    """The pictures of one owner, oldest first, without their bytes."""
    columns = [images.c[name] for name in _SHOWN if not name.startswith("owner")]
    rows = conn.execute(
        select(*columns).where(images.c.owner_type == owner_type, images.c.owner_id == owner_id).order_by(images.c.id)
    ).mappings()
    return [{**row, "thumbnail_url": _thumbnail_url(row["id"])} for row in rows]


def read_image(conn: Connection, image_id: int) -> dict[str, Any]:
    """One picture without its bytes, or 404."""
    return {**_one(conn, image_id, *_SHOWN), "thumbnail_url": _thumbnail_url(image_id)}


def data_of(conn: Connection, image_id: int) -> bytes:
    return bytes(_one(conn, image_id, "data")["data"])


def thumbnail_of(conn: Connection, image_id: int) -> bytes:
    return bytes(_one(conn, image_id, "thumbnail")["thumbnail"])


def delete(conn: Connection, image_id: int, actor: str) -> None:
    row = _one(conn, image_id, "owner_type", "owner_id")
    conn.execute(images.delete().where(images.c.id == image_id))
    audit.record(conn, actor, "image.delete", row["owner_type"], row["owner_id"], image_id=image_id)


def _one(conn: Connection, image_id: int, *names: str) -> Mapping[Any, Any]:
    row = conn.execute(select(*(images.c[name] for name in names)).where(images.c.id == image_id)).mappings().first()
    if row is None:
        raise NotFound("image", image_id)
    return row


def _thumbnail_url(image_id: int) -> str:
    return f"/api/v1/images/{image_id}/thumbnail"
