"""Image files for tests, and the form that uploads one."""

from __future__ import annotations

import io
from typing import Any

from aiohttp import FormData
from PIL import Image

__all__ = ["form", "picture"]


def picture(kind: str = "PNG", size: tuple[int, int] = (640, 320), mode: str = "RGB", **options: Any) -> bytes:
    """An image file."""
    out = io.BytesIO()
    image = Image.effect_noise(size, 64).convert(mode)
    image.save(out, kind, **options)
    return out.getvalue()


def form(data: bytes, caption: str | None = None, filename: str = "chart.png") -> Any:
    body = FormData()
    body.add_field("file", io.BytesIO(data), filename=filename, content_type="image/png")
    if caption is not None:
        body.add_field("caption", caption)
    return body
