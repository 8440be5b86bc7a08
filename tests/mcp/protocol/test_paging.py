"""Pages of lists: every entry once, and a cursor that is ours, of this list, in this version, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host

MANY = "tests.mcp.protocol.offers:many"
LISTS = {
    "tools/list": ("tools", 23),
    "prompts/list": ("prompts", 11),
    "resources/list": ("resources", 7),
    "resources/templates/list": ("resourceTemplates", 5),
}


async def walked(client: Client, method: str) -> list[list[Any]]:
    pages: list[list[Any]] = []
    params: dict[str, Any] = {}
    while True:
        page = await client.result(method, params)
        pages.append([entry["name"] for entry in page[LISTS[method][0]]])
        if "nextCursor" not in page:
            return pages
        params = {"cursor": page["nextCursor"]}


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("size", [1, 3, 4, 5, 7, 11, 23, 100])
async def test_walking_all_pages_gives_exactly_the_list(memory: Host, method: str, size: int) -> None:
    client = await memory(offer=MANY, page_size=size)
    pages = await walked(client, method)
    client.here.offer.page_size = 1_000
    assert [[name for page in pages for name in page]] == await walked(client, method)
    count = LISTS[method][1]
    assert [len(page) for page in pages] == [size] * (count // size) + ([count % size] if count % size else [])


@pytest.mark.parametrize("method", LISTS)
async def test_pages_of_the_modern_era_all_carry_hints(memory_modern: Host, method: str) -> None:
    client = await memory_modern(offer=MANY, page_size=2)
    first = await client.result(method)
    second = await client.result(method, {"cursor": first["nextCursor"]})
    assert [page["cacheScope"] for page in (first, second)] == ["private", "private"]
    assert all(type(page["ttlMs"]) is int for page in (first, second))


@pytest.mark.parametrize("method", LISTS)
async def test_a_cursor_that_is_not_ours_is_refused(memory: Host, method: str) -> None:
    client = await memory(offer=MANY, page_size=2)
    cursor: str = (await client.result(method))["nextCursor"]
    altered = [
        cursor[:-1] + ("0" if cursor[-1] != "0" else "1"),
        cursor[:-2],
        cursor + "00",
        cursor.upper(),
        cursor[::-1],
    ]
    for wrong in ["", "1", "2", "abc", "MQ==", " ", *altered]:
        assert (await client.error(method, {"cursor": wrong}))["code"] == -32602, wrong
    others: list[Any] = [5, None, [cursor], {}]
    for wrong in others:
        assert (await client.error(method, {"cursor": wrong}))["code"] == -32602
    assert (await client.result(method, {"cursor": cursor}))[LISTS[method][0]]


async def test_a_cursor_of_another_list_is_refused(memory: Host) -> None:
    client = await memory(offer=MANY, page_size=2)
    cursors = {method: (await client.result(method))["nextCursor"] for method in LISTS}
    for method in LISTS:
        for other, cursor in cursors.items():
            if other != method:
                assert (await client.error(method, {"cursor": cursor}))["code"] == -32602


async def test_a_cursor_of_a_list_that_changed_is_refused(memory: Host) -> None:
    client = await memory(page_size=5)
    cursor = (await client.result("tools/list"))["nextCursor"]
    await client.call("add_tool", {"name": "one_more"})
    assert (await client.error("tools/list", {"cursor": cursor}))["code"] == -32602
    assert (await client.result("tools/list"))["tools"]


async def test_a_cursor_of_another_server_is_refused(memory: Host) -> None:
    first, second = await memory(offer=MANY, page_size=2), await memory(offer=MANY, page_size=2)
    cursor = (await first.result("tools/list"))["nextCursor"]
    assert (await second.error("tools/list", {"cursor": cursor}))["code"] == -32602


async def test_lists_keep_their_order(memory: Host) -> None:
    client = await memory()
    for method, (member, _) in LISTS.items():
        first = await client.result(method)
        assert first[member] == (await client.result(method))[member] == (await client.result(method))[member]
