"""Lists of a server, page by page, and what of them is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.client.caller import Answer, Caller, Identity, Refused, Request
from zorivest_rpc.mcp.client.lists import (
    MOST_BYTES,
    MOST_BYTES_IN_ALL,
    MOST_ITEMS,
    MOST_PAGES,
    Kind,
    Listing,
    read_list,
)
from zorivest_rpc.mcp.protocol.replies import ErrorBody


def tool(name: Any, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def read(serve: Callable[[str | None], Any], kind: Kind = Kind.TOOLS, mirrors: bool = True) -> tuple[Listing, int]:
    """The listing of a server that is a function of the cursor, and the number of pages that were asked for."""
    reading = read_list(Caller(Identity("a", "1")), kind, mirrors=mirrors)
    request: Request = next(reading)
    pages = 0
    try:
        while True:
            pages += 1
            sent = json.loads(request.frame)
            assert sent["method"] == kind.method
            body = serve(sent["params"].get("cursor"))
            answer = (
                Answer(request, error=body)
                if isinstance(body, ErrorBody)
                else Answer(request, msgspec.Raw(json.dumps(body).encode()))
            )
            request = reading.send(answer)
    except StopIteration as done:
        listing: Listing = done.value
        return listing, pages


def whole(*tools: Any, **extra: Any) -> Callable[[str | None], Any]:
    return lambda cursor: {"tools": list(tools), **extra}


def test_pages_are_joined_in_order_until_there_is_no_cursor() -> None:
    pages: dict[str | None, Any] = {
        None: {"tools": [tool("a")], "nextCursor": "", "ttlMs": 9000},
        "": {"tools": [tool("b")], "nextCursor": "x", "ttlMs": 4000},
        "x": {"tools": [tool("c")], "nextCursor": None, "ttlMs": 7000},
    }
    listing, asked = read(pages.__getitem__)
    assert [item.name for item in listing.items] == ["a", "b", "c"]
    assert (asked, listing.ttl_ms, listing.drops) == (3, 4000, ())


@pytest.mark.parametrize(
    ("kind", "member", "key"),
    [
        (Kind.TOOLS, "tools", "name"),
        (Kind.PROMPTS, "prompts", "name"),
        (Kind.RESOURCES, "resources", "uri"),
        (Kind.TEMPLATES, "resourceTemplates", "uriTemplate"),
    ],
)
def test_each_kind_of_list_has_its_method_member_and_key(kind: Kind, member: str, key: str) -> None:
    entry = {key: "file:///{a}", "inputSchema": {"type": "object"}, "title": "T"}
    listing, _ = read(lambda cursor: {member: [entry, {"title": "without"}]}, kind)
    assert [(item.name, item.definition) for item in listing.items] == [("file:///{a}", entry)]
    assert [drop.reason for drop in listing.drops] == ["shape"]
    with pytest.raises(ProtocolError, match="without its list"):
        read(lambda cursor: {"other": []}, kind)


def test_a_repeated_cursor_ends_it() -> None:
    with pytest.raises(ProtocolError, match="repeats a cursor"):
        read(lambda cursor: {"tools": [], "nextCursor": "same"})


def test_pages_end_at_the_limit() -> None:
    def serve(cursor: str | None) -> Any:
        number = int(cursor or 0) + 1
        return {"tools": [tool(f"t{number}")], **({"nextCursor": str(number)} if number < last else {})}

    last = MOST_PAGES
    listing, asked = read(serve)
    assert (len(listing.items), asked) == (MOST_PAGES, MOST_PAGES)
    last = MOST_PAGES + 1
    with pytest.raises(ProtocolError, match=f"more than {MOST_PAGES} pages"):
        read(serve)


def test_more_tools_than_the_limit_are_counted_and_no_further_page_is_asked_for() -> None:
    exactly, _ = read(whole(*(tool(f"t{number}") for number in range(MOST_ITEMS))))
    assert (len(exactly.items), exactly.drops) == (MOST_ITEMS, ())
    many = {"tools": [tool(f"t{number}") for number in range(MOST_ITEMS + 1)], "nextCursor": "n"}
    listing, asked = read(lambda cursor: many)
    assert (len(listing.items), asked) == (MOST_ITEMS, 1)
    assert [drop.reason for drop in listing.drops] == ["too_many"]


def test_definitions_are_kept_as_far_as_there_is_room_for_all() -> None:
    """Pages of large definitions would else be kept as long as the server runs."""
    each = MOST_BYTES - 200
    fit = MOST_BYTES_IN_ALL // MOST_BYTES
    tools = [{**tool(f"t{number}"), "description": "x" * each} for number in range(fit + 10)]
    listing, _ = read(whole(*tools, tool("small")))
    assert [item.name for item in listing.items][:1] == ["t0"]
    assert sum(len(item.raw) for item in listing.items) <= MOST_BYTES_IN_ALL
    assert listing.items[-1].name == "small"
    assert {drop.reason for drop in listing.drops} == {"too_large"}
    assert listing.drops[0].detail.endswith(f"at most {MOST_BYTES_IN_ALL} are taken in all")


def test_a_definition_above_the_limit_is_dropped_alone() -> None:
    small = tool("small")
    overhead = len(json.dumps({**tool("large"), "description": ""}))
    fits = {**tool("large"), "description": "d" * (MOST_BYTES - overhead)}
    listing, _ = read(whole(small, fits))
    assert [item.name for item in listing.items] == ["small", "large"]
    listing, _ = read(whole(small, {**fits, "description": fits["description"] + "d"}))
    assert [item.name for item in listing.items] == ["small"]
    assert [(drop.name, drop.reason) for drop in listing.drops] == [("entry 1", "too_large")]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        [],
        "a",
        {},
        {"name": 7, "inputSchema": {}},
        {"name": "", "inputSchema": {}},
        {"name": "x" * 257, "inputSchema": {}},
        {"name": "a"},
        {"name": "a", "inputSchema": None},
        {"name": "a", "inputSchema": []},
    ],
)
def test_a_definition_of_the_wrong_shape_is_dropped_alone(entry: Any) -> None:
    listing, _ = read(whole(entry, tool("good")))
    assert [item.name for item in listing.items] == ["good"]
    assert [drop.reason for drop in listing.drops] == ["shape"]


def test_a_name_that_is_listed_twice_counts_once() -> None:
    listing, _ = read(whole(tool("a", x={}), tool("a", y={})))
    assert [item.definition["inputSchema"]["properties"] for item in listing.items] == [{"x": {}}]
    assert [(drop.name, drop.reason) for drop in listing.drops] == [("a", "name_taken")]


def test_a_wrong_header_annotation_drops_the_tool_where_headers_are_sent() -> None:
    wrong = tool("wrong", score={"type": "number", "x-mcp-header": "Score"})
    right = tool("right", region={"type": "string", "x-mcp-header": "Region"})
    listing, _ = read(whole(wrong, right))
    assert [(item.name, dict(item.mirrored)) for item in listing.items] == [("right", {"Region": ("region",)})]
    assert [(drop.name, drop.reason) for drop in listing.drops] == [("wrong", "x_mcp_header")]
    assert "score" in listing.drops[0].detail
    elsewhere, _ = read(whole(wrong, right), mirrors=False)
    assert [(item.name, dict(item.mirrored)) for item in elsewhere.items] == [("wrong", {}), ("right", {})]


def test_an_annotation_that_is_written_with_escapes_counts() -> None:
    raw = rb'{"name":"a","inputSchema":{"type":"object","properties":{"n":{"x\u002dmcp-header":"N","type":"number"}}}}'
    reading = read_list(Caller(Identity("a", "1")), Kind.TOOLS, mirrors=True)
    with pytest.raises(StopIteration) as done:
        reading.send(Answer(next(reading), msgspec.Raw(b'{"tools":[%b]}' % raw)))
    assert [drop.reason for drop in done.value.value.drops] == ["x_mcp_header"]


@pytest.mark.parametrize("schema", [{"properties": {"a": {"x-mcp-header": "A", "type": "string", "properties": 7}}}])
def test_a_schema_that_cannot_be_walked_is_dropped_and_not_raised(schema: Any) -> None:
    listing, _ = read(whole({"name": "odd", "inputSchema": schema}, tool("good")))
    assert "good" in [item.name for item in listing.items]


def test_the_bytes_of_a_definition_are_kept() -> None:
    reading = read_list(Caller(Identity("a", "1")), Kind.TOOLS)
    request = next(reading)
    raw = b'{"name":"a", "inputSchema":{"type":"object","maximum":1.50}}'
    with pytest.raises(StopIteration) as done:
        reading.send(Answer(request, msgspec.Raw(b'{"tools":[%b]}' % raw)))
    assert done.value.value.items[0].raw == raw


def test_an_error_or_a_question_instead_of_a_page_is_raised() -> None:
    with pytest.raises(Refused) as refused:
        read(lambda cursor: ErrorBody(-32603, "broken"))
    assert refused.value.code == -32603
    for kind in ("input_required", "task", 7):
        with pytest.raises(ProtocolError, match="resultType"):
            read(whole(resultType=kind))


@pytest.mark.parametrize("ttl", [None, -1, 1.5, "5", True])
def test_a_time_to_live_that_is_none_is_not_kept(ttl: Any) -> None:
    assert read(whole(ttlMs=ttl))[0].ttl_ms is None
