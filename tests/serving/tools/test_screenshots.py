"""get_screenshot: a line about the image, and the image."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from tests.serving.tools.stage import FakeBackend, Stage, Turn, kit, make_call, refused
from zorivest_rpc.errors import BackendError
from zorivest_rpc.mcp.call import Outcome
from zorivest_rpc.serving.backend.interface import Reply
from zorivest_rpc.serving.tools.screenshots import Screenshots

ABOUT = {"id": 42, "caption": "Entry on the 5 minute chart", "mime_type": "image/webp", "width": 1280, "height": 720}
PIXELS = b"RIFF\x00\x00\x00\x00WEBP"
STORED: dict[str, Any] = {
    "GET /images/42": ABOUT,
    "GET /images/42/full": Reply(200, None, PIXELS, "application/octet-stream"),
}


async def get(answers: dict[str, Any]) -> tuple[Outcome, FakeBackend]:
    backend = FakeBackend(answers)
    return await Screenshots(kit(backend)).get_screenshot(make_call("get_screenshot", image_id=42)), backend


async def test_the_reply_is_a_text_block_and_an_image_block() -> None:
    outcome, backend = await get(STORED)
    words, picture = outcome.content
    assert words == {"type": "text", "text": "Entry on the 5 minute chart\n1280 x 720"}
    assert (picture["type"], picture["mimeType"]) == ("image", "image/webp")
    assert b64decode(picture["data"]) == PIXELS
    assert backend.paths() == ["GET /images/42", "GET /images/42/full"]


async def test_the_media_type_is_the_stored_one() -> None:
    outcome, _ = await get({**STORED, "GET /images/42": {**ABOUT, "mime_type": "image/png"}})
    assert outcome.content[1]["mimeType"] == "image/png"


async def test_an_unknown_image_is_an_error_and_nothing_more_is_asked() -> None:
    backend = FakeBackend({"GET /images/42": refused(404)})
    with pytest.raises(BackendError, match="There is no image 42; get_trade_screenshots"):
        await Screenshots(kit(backend)).get_screenshot(make_call("get_screenshot", image_id=42))
    assert backend.paths() == ["GET /images/42"]


async def test_another_refusal_is_not_called_missing() -> None:
    with pytest.raises(BackendError, match="No session"):
        await get({"GET /images/42": refused(403, "No session.")})
    with pytest.raises(BackendError, match="Nothing is served"):
        await get({"GET /images/42": refused(404, "Nothing is served at /images.", code="unknown_route")})


async def test_bytes_that_cannot_be_fetched_are_an_error() -> None:
    with pytest.raises(BackendError, match="broken"):
        await get({**STORED, "GET /images/42/full": refused(500, "broken")})
    with pytest.raises(BackendError) as failed:
        await get({**STORED, "GET /images/42/full": Reply(200, None, b"")})
    assert failed.value.code == "bad_answer"


@pytest.mark.parametrize("about", [None, [], {}, {"mime_type": "text/html"}, {"mime_type": 5}])
async def test_an_image_without_a_media_type_is_not_guessed_at(about: Any) -> None:
    with pytest.raises(BackendError) as failed:
        await get({**STORED, "GET /images/42": Turn(about)})
    assert failed.value.code == "bad_answer"


async def test_an_image_without_caption_or_size_still_has_its_line() -> None:
    outcome, _ = await get({**STORED, "GET /images/42": {"mime_type": "image/webp", "caption": None}})
    assert outcome.content[0]["text"] == "Image 42 (no caption)"


async def test_a_client_sees_the_image() -> None:
    stage = Stage(FakeBackend({**STORED, "POST /mcp-guard/check": {"allowed": True}}))
    answer = await (await stage.connect()).call("get_screenshot", image_id=42)
    assert [block["type"] for block in answer["content"]] == ["text", "image"]
