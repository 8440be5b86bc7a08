"""What becomes of an uploaded picture before it is stored: checked, decoded, stripped, and written again as WebP.

Nothing of the uploaded bytes is kept: the pixels are decoded and encoded anew, so metadata (where a photo was taken,
which program made a screenshot) and whatever else rode along are gone. The size that a header claims is looked at
before any pixel is decoded, so a small file that would unpack into gigabytes is refused for the price of its header.
All of this is slow; it belongs into a worker thread."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

from ..errors import Invalid, Unavailable

if TYPE_CHECKING:
    from PIL.Image import Image, Resampling

__all__ = ["LARGEST_FILE", "LARGEST_SIDE", "Picture", "prepare", "resize"]

LARGEST_FILE = 10 * 1024 * 1024
LARGEST_SIDE = 16_383  # what the WebP format can hold
LARGEST_AREA = 50_000_000  # pixels: twice a large phone's photo, 200 MB while it is decoded
THUMBNAIL_SIDE = 200
QUALITY, THUMBNAIL_QUALITY = 85, 80
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


class Picture(NamedTuple):
    """A picture ready to be stored."""

    data: bytes
    thumbnail: bytes
    width: int
    height: int


def kind_of(data: bytes) -> str | None:
    """PNG, JPEG, GIF or WEBP by the first bytes; None for anything else, whatever it is called."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    return "WEBP" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def prepare(data: bytes) -> Picture:
    """The picture in uploaded bytes; 422 if they are none, 503 where no codec is installed."""
    kind = kind_of(data)
    if kind is None:
        raise Invalid({"file": ["must be a PNG, JPEG, GIF or WebP image"]}, "not_an_image")
    image = _decode(data, kind)
    width, height = image.size
    whole = _webp(image, QUALITY)
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), _lanczos())  # in place: a copy would be another 200 MB
    return Picture(whole, _webp(image, THUMBNAIL_QUALITY), width, height)


def resize(data: bytes, largest: int) -> bytes:
    """A stored picture with its longer side at most `largest`; smaller ones stay as they are."""
    image = _decode(data, "WEBP")
    if max(image.size) <= largest:
        return data
    image.thumbnail((largest, largest), _lanczos())
    return _webp(image, QUALITY)


def _decode(data: bytes, kind: str) -> Image:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise Unavailable("image_codec_missing", "Pillow is not installed, so images cannot be read.") from None
    try:
        with Image.open(io.BytesIO(data), formats=[kind]) as opened:
            _check_size(*opened.size)
            opened.load()
            upright = ImageOps.exif_transpose(opened)
            return upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    except Invalid:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Invalid({"file": ["has more pixels than can be decoded"]}, "image_too_large") from None
    except Exception:  # noqa: BLE001 - a broken file can make a decoder raise anything
        raise Invalid({"file": ["is damaged: it cannot be decoded"]}, "not_an_image") from None


def _check_size(width: int, height: int) -> None:
    if max(width, height) > LARGEST_SIDE:
        raise Invalid({"file": [f"is {width} x {height}; a side may have {LARGEST_SIDE} pixels"]}, "image_too_large")
    if width * height > LARGEST_AREA:
        raise Invalid({"file": [f"is {width} x {height}; an image may have {LARGEST_AREA} pixels"]}, "image_too_large")


def _lanczos() -> Resampling:
    from PIL import Image

    return Image.Resampling.LANCZOS


def _webp(image: Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()
