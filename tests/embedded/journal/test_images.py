"""Pictures: what is one, what becomes of it, what is refused."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import FormData
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base
from sqlalchemy import text

from tests.embedded.driver import Journal
from tests.embedded.journal.pictures import form, picture
from zorivest_rpc.embedded.backend import Embedded


async def attach(journal: Journal, data: bytes, status: int = 201, **options: Any) -> Any:
    return await journal.expect(status, "POST", "/trades/E0001/images", data=form(data, **options))


async def content(journal: Journal, path: str, **query: str) -> Image.Image:
    response = await journal.ask("GET", path, params=query)
    assert (response.status, response.content_type) == (200, "image/webp")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    image = Image.open(io.BytesIO(await response.read()))
    assert image.format == "WEBP"
    return image


@pytest.fixture(autouse=True)
async def trade(journal: Journal) -> None:
    await journal.buy(1, 1)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [*(("PNG", mode) for mode in ("RGB", "RGBA", "L", "P")), ("JPEG", "RGB"), ("GIF", "P"), ("WEBP", "RGB")],
)
async def test_every_kind_becomes_webp(
    journal: Journal, kind: str, mode: str, satisfies: Callable[[str, Any], None]
) -> None:
    answer = await attach(journal, picture(kind, mode=mode), caption="before the open")
    satisfies("attach_screenshot", answer)
    assert (answer["width"], answer["height"], answer["mime_type"]) == (640, 320, "image/webp")
    shown = await journal.get(f"/images/{answer['image_id']}")
    assert (shown["owner_type"], shown["owner_id"], shown["caption"]) == ("trade", "E0001", "before the open")
    assert "data" not in shown
    listed = await journal.get("/trades/E0001/images")
    satisfies("get_trade_screenshots", listed)
    assert [item["id"] for item in listed] == [answer["image_id"]]
    full = await content(journal, f"/images/{answer['image_id']}/full")
    assert full.size == (640, 320)
    thumbnail = await content(journal, f"/images/{answer['image_id']}/thumbnail")
    assert thumbnail.size == (200, 100)
    assert (await journal.get("/trades/E0001"))["image_count"] == 1


async def test_alpha_is_kept(journal: Journal) -> None:
    out = io.BytesIO()
    Image.new("RGBA", (10, 10), (255, 0, 0, 0)).save(out, "PNG")
    answer = await attach(journal, out.getvalue())
    image = await content(journal, f"/images/{answer['image_id']}/full")
    assert image.convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]


async def test_a_small_picture_is_not_blown_up(journal: Journal) -> None:
    answer = await attach(journal, picture(size=(30, 20)))
    assert (await content(journal, f"/images/{answer['image_id']}/thumbnail")).size == (30, 20)
    assert (await content(journal, f"/images/{answer['image_id']}/full", max_dim="1000")).size == (30, 20)


async def test_a_picture_comes_as_large_as_wanted(journal: Journal) -> None:
    answer = await attach(journal, picture())
    path = f"/images/{answer['image_id']}"
    assert (await content(journal, path + "/full", max_dim="320")).size == (320, 160)
    assert (await content(journal, path + "/thumbnail", max_size="64")).size == (64, 32)
    await journal.refused(422, "GET", path + "/full", params={"max_dim": "0"})
    await journal.refused(422, "GET", path + "/thumbnail", params={"max_size": "99999"})


async def test_where_a_photo_was_taken_is_not_kept(journal: Journal) -> None:
    exif = Image.Exif()
    exif[Base.Artist] = "PLANTED-SECRET"
    exif[Base.Orientation] = 6
    exif.get_ifd(IFD.GPSInfo)[GPS.GPSLatitude] = (52.0, 31.0, 12.0)
    data = picture("JPEG", exif=exif.tobytes())
    assert b"PLANTED-SECRET" in data
    answer = await attach(journal, data)
    assert (answer["width"], answer["height"]) == (320, 640)  # turned as the camera said
    response = await journal.ask("GET", f"/images/{answer['image_id']}/full")
    stored = await response.read()
    assert b"PLANTED-SECRET" not in stored
    assert not Image.open(io.BytesIO(stored)).getexif()


def bomb(width: int, height: int) -> bytes:
    """A tiny PNG that says it is huge and, unpacked, is."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10_000_000))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(16_383, 16_383), (16_384, 10), (10, 20_000), (2**31 - 1, 2**31 - 1)])
async def test_a_bomb_is_refused_by_its_header(journal: Journal, size: tuple[int, int]) -> None:
    refused = await journal.refused(422, "POST", "/trades/E0001/images", data=form(bomb(*size)))
    assert refused["error"] == "image_too_large"
    assert (await journal.get("/mcp/state-summary"))["counters"]["images"] == 0


NO_PICTURES = (
    b"",
    b"hello",
    b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    b"%PDF-1.7",
    b"\x89PNG\r\n\x1a\n",
    b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    b"\xff\xd8\xff" + b"\0" * 100,
    b"GIF89a" + b"\xff" * 20,
    b"RIFF\x10\0\0\0WEBPVP8 ",
    b"RIFF\x10\0\0\0WAVEfmt ",
    b"BM" + b"\0" * 100,
    b"II*\0" + b"\0" * 100,
)


async def test_what_is_no_picture_is_refused(journal: Journal) -> None:
    for data in NO_PICTURES:
        refused = await journal.refused(422, "POST", "/trades/E0001/images", data=form(data))
        assert refused["error"] == "not_an_image"


async def test_a_cut_off_picture_is_refused(journal: Journal) -> None:
    whole = picture()
    await journal.refused(422, "POST", "/trades/E0001/images", data=form(whole[: len(whole) // 2]))


async def test_more_than_ten_megabytes_are_refused(journal: Journal) -> None:
    data = picture() + b"\0" * (10 * 1024 * 1024)
    assert (await journal.refused(413, "POST", "/trades/E0001/images", data=form(data)))["error"] == "too_large"
    exactly = picture()
    exactly += b"\0" * (10 * 1024 * 1024 - len(exactly))
    await attach(journal, exactly)  # trailing bytes are not the picture


async def test_the_form_must_hold_a_file(journal: Journal) -> None:
    body = FormData({"caption": "no file"}, default_to_multipart=True)
    await journal.refused(422, "POST", "/trades/E0001/images", data=body)
    await journal.refused(422, "POST", "/trades/E0001/images", {"file": "x"})


async def test_a_picture_needs_its_trade(journal: Journal) -> None:
    await journal.refused(404, "POST", "/trades/none/images", data=form(picture()))
    await journal.refused(404, "GET", "/trades/none/images")
    for path in ("/images/999", "/images/x", "/images/-1", "/images/" + "9" * 40, "/images/1e3"):
        await journal.refused(404, "GET", path)
        await journal.refused(404, "GET", path + "/full")
        await journal.refused(404, "GET", path + "/thumbnail")
        await journal.refused(404, "DELETE", path)


async def test_a_deleted_picture_is_gone(journal: Journal) -> None:
    answer = await attach(journal, picture())
    await journal.expect(204, "DELETE", f"/images/{answer['image_id']}")
    await journal.refused(404, "GET", f"/images/{answer['image_id']}")
    assert await journal.get("/trades/E0001/images") == []


_TO_REPORT = text("UPDATE images SET owner_type = 'report', owner_id = :id")


async def test_pictures_go_with_their_owner(journal: Journal, backend: Embedded) -> None:
    await journal.expect(
        201, "POST", "/trades/E0001/report", {"setup_quality": "A", "execution_quality": "A", "followed_plan": True}
    )
    await attach(journal, picture(size=(20, 20)))
    report = await journal.get("/trades/E0001/report")  # earlier releases kept pictures of reports
    await backend.database().write(lambda conn: conn.execute(_TO_REPORT, {"id": str(report["id"])}))
    await attach(journal, picture(size=(20, 20)))
    assert (await journal.get("/mcp/state-summary"))["counters"]["images"] == 2
    await journal.expect(204, "DELETE", "/trades/E0001/report")
    assert (await journal.get("/mcp/state-summary"))["counters"]["images"] == 1
    await journal.expect(204, "DELETE", "/trades/E0001")
    assert (await journal.get("/mcp/state-summary"))["counters"]["images"] == 0


async def test_a_file_name_is_only_a_claim(journal: Journal) -> None:
    answer = await attach(journal, picture(size=(20, 20)), filename="../../../etc/cron.d/x")
    assert answer["image_id"] == 1
