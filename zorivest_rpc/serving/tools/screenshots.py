"""Stored screenshots with their pixels: metadata first, and only if there is an image, its bytes."""

from __future__ import annotations

import msgspec

from zorivest_rpc.errors import BackendError
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.content import image, text
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend, Request
from zorivest_rpc.serving.backend.refusals import unknown_route
from zorivest_rpc.serving.tools.kit import Kit, bad_answer

__all__ = ["Screenshot", "Screenshots", "fetch"]


class Screenshot(msgspec.Struct, frozen=True):
    """An image as it is stored; `width` and `height` are None where the backend does not say."""

    caption: str
    width: int | None
    height: int | None
    mime_type: str
    data: bytes

    def describe(self, image_id: int) -> str:
        words = self.caption or f"Image {image_id} (no caption)"
        return words if self.width is None or self.height is None else f"{words}\n{self.width} x {self.height}"


async def fetch(backend: Backend, image_id: int) -> Screenshot:
    """The image with this id; BackendError 404 `not_found` if there is none, and then nothing more is asked."""
    try:
        about = await backend.ask(Request("GET", f"/images/{image_id}"))
    except BackendError as error:
        if error.status != 404 or unknown_route(error):
            raise
        raise BackendError(
            404,
            f"There is no image {image_id}; get_trade_screenshots lists the images of a trade with their ids.",
            code="not_found",
            next="Find the id with get_trade_screenshots.",
            reported=error.reported,
            detail=error.detail,
        ) from None
    found = about.value
    if not isinstance(found, dict):
        raise bad_answer(f"/images/{image_id}", about, "an object that describes the image")
    mime_type = found.get("mime_type")
    if not isinstance(mime_type, str) or not mime_type.startswith("image/"):
        raise bad_answer(f"/images/{image_id}", about, "the image's media type")
    full = await backend.ask(Request("GET", f"/images/{image_id}/full", raw=True))
    if not full.body:
        raise bad_answer(f"/images/{image_id}/full", full, "the bytes of the image")
    caption = found.get("caption")
    return Screenshot(
        caption.strip() if isinstance(caption, str) else "",
        _pixels(found.get("width")),
        _pixels(found.get("height")),
        mime_type,
        full.body,
    )


def _pixels(value: Json) -> int | None:
    return value if type(value) is int else None


class Screenshots:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def handlers(self) -> dict[str, Handler]:
        return {"get_screenshot": self.get_screenshot}

    async def get_screenshot(self, call: Call) -> Outcome:
        image_id: int = int(call.arguments["image_id"])  # 42.0 is an integer to a schema
        picture = await fetch(self._kit.backend_for(call), image_id)
        return Outcome([text(picture.describe(image_id)), image(picture.data, picture.mime_type)])
