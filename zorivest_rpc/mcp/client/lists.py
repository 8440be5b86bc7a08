"""The lists of a server, page by page, and what of them can be used; a generator that a shell drives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.client.caller import Answer, Caller, Refused, Request
from zorivest_rpc.mcp.client.opening import read_ttl
from zorivest_rpc.mcp.client.rounds import check_complete
from zorivest_rpc.mcp.protocol.extent import MOST_NAME, shorten
from zorivest_rpc.mcp.protocol.headers import HeaderParams, header_params, may_annotate
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, Json, dumps
from zorivest_rpc.mcp.protocol.replies import Page, read_reply

__all__ = ["MOST_ITEMS", "MOST_PAGES", "Drop", "Item", "Kind", "Listing", "read_list"]

MOST_PAGES: Final = 50
MOST_ITEMS: Final = 512  # of one server and kind
MOST_BYTES: Final = 256 * 1024  # of one definition
MOST_BYTES_IN_ALL: Final = 4 * 1024 * 1024  # of the definitions of one list


class Kind(Enum):
    """A list: the method that asks for it, its member in the answer, and what identifies an item."""

    TOOLS = ("tools/list", "tools", "name")
    PROMPTS = ("prompts/list", "prompts", "name")
    RESOURCES = ("resources/list", "resources", "uri")
    TEMPLATES = ("resources/templates/list", "resource_templates", "uriTemplate")

    @property
    def method(self) -> str:
        return self.value[0]

    @property
    def member(self) -> str:
        return self.value[1]

    @property
    def key(self) -> str:
        return self.value[2]


class Item(msgspec.Struct, frozen=True):
    """One definition: as the server sent it, and read. `mirrored` are the arguments that headers repeat; in `notes`
    others keep what they found out about it, which stays true for as long as it is offered."""

    name: str
    raw: bytes
    definition: dict[str, Json]
    mirrored: HeaderParams = {}
    notes: dict[str, Any] = msgspec.field(default_factory=dict)


class Drop(msgspec.Struct, frozen=True):
    """A definition that is not used. Reasons: `shape`, `too_large`, `x_mcp_header`, `name_taken`, `too_many`."""

    name: str
    reason: str
    detail: str = ""


class Listing(msgspec.Struct, frozen=True):
    items: tuple[Item, ...]
    drops: tuple[Drop, ...] = ()
    ttl_ms: int | None = None  # the shortest of the pages


Reading: TypeAlias = Generator[Request, Answer, Listing]
_T = TypeVar("_T")


def read_list(caller: Caller, kind: Kind, *, mirrors: bool = False, meta: bytes = b"") -> Reading:
    """All pages. `mirrors`: headers repeat annotated arguments here, so a tool with a wrong annotation is dropped.

    ProtocolError: pages without an end. Refused: the server answered with an error."""
    raws: list[bytes | int] = []  # of one that is too large its size alone, so that no page is kept for it
    room = MOST_BYTES_IN_ALL
    seen: set[str] = set()
    ttl: int | None = None
    params = b"{}"
    for _ in range(MOST_PAGES):
        answer = yield caller.request(kind.method, params, meta=meta)
        if answer.error is not None:
            raise Refused(answer.error)
        page = read_reply(answer.result, Page)
        assert isinstance(page, Page)
        check_complete(page.result_type, kind.method)
        found = getattr(page, kind.member)
        if found is UNSET:
            raise ProtocolError(INVALID_REQUEST, f"{kind.method} was answered without its list")
        for each in found[: MOST_ITEMS + 1]:
            size = len(memoryview(each))
            is_kept = size <= min(MOST_BYTES, room)
            raws.append(bytes(each) if is_kept else size)
            room -= size if is_kept else 0
        ttl = _shorter(ttl, read_ttl(page.ttl_ms))
        cursor = page.next_cursor
        if cursor is None or len(raws) > MOST_ITEMS:
            return _sort_out(raws, kind, mirrors, ttl)
        if cursor in seen:
            raise ProtocolError(INVALID_REQUEST, f"{kind.method} repeats a cursor")
        seen.add(cursor)
        params = dumps({"cursor": cursor})
    raise ProtocolError(INVALID_REQUEST, f"{kind.method} has more than {MOST_PAGES} pages")


def _shorter(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _sort_out(raws: list[bytes | int], kind: Kind, mirrors: bool, ttl: int | None) -> Listing:
    items: dict[str, Item] = {}
    drops: list[Drop] = []
    for number, raw in enumerate(raws[:MOST_ITEMS]):
        read = _too_large(raw, number) if isinstance(raw, int) else _read_item(raw, kind, mirrors, number)
        if isinstance(read, Item) and read.name in items:
            read = Drop(read.name, "name_taken", "listed twice by its server")
        if isinstance(read, Item):
            items[read.name] = read
        else:
            drops.append(read)
    if len(raws) > MOST_ITEMS:
        drops.append(Drop("", "too_many", f"at most {MOST_ITEMS} are taken from one server"))
    return Listing(tuple(items.values()), tuple(drops), ttl)


def _too_large(size: int, number: int) -> Drop:
    most = f"{MOST_BYTES} are taken" if size > MOST_BYTES else f"{MOST_BYTES_IN_ALL} are taken in all"
    return Drop(f"entry {number}", "too_large", f"a definition of {size} bytes; at most {most}")


def _read_item(raw: bytes, kind: Kind, mirrors: bool, number: int) -> Item | Drop:
    definition = _attempt(lambda: msgspec.json.decode(raw, type=dict[str, Json]))
    name = definition.get(kind.key) if definition is not None else None
    most = MOST_NAME if kind.key == "name" else 2_048
    if definition is None or not isinstance(name, str) or not 0 < len(name) <= most:
        return Drop(f"entry {number}", "shape", f"not an object with a {kind.key}")
    if kind is not Kind.TOOLS:
        return Item(name, raw, definition)
    schema = definition.get("inputSchema")
    if not isinstance(schema, dict):
        return Drop(name, "shape", "inputSchema is not an object")
    if not mirrors or not may_annotate(raw):
        return Item(name, raw, definition)
    return _mirror(name, raw, definition, schema)


def _mirror(name: str, raw: bytes, definition: dict[str, Json], schema: Mapping[str, Json]) -> Item | Drop:
    try:
        return Item(name, raw, definition, header_params(schema))
    except (ValueError, RecursionError, AttributeError, TypeError) as wrong:
        return Drop(name, "x_mcp_header", shorten(str(wrong), 200))


def _attempt(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None
