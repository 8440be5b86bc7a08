"""What the five tools share: arguments as a value, times as text, and results that say that a page wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.mcp.call import Outcome, give
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["UNTRUSTED", "give_untrusted", "iso", "named", "read_arguments", "write_uri"]

UNTRUSTED: Final = "com.zorivest/untrusted"  # page content is data, not instruction
_URI: Final = "/:?#[]@!$&'()*+,;=%-._~"
Arguments = TypeVar("Arguments")


def read_arguments(arguments: dict[str, Json], kind: type[Arguments]) -> Arguments:
    """The arguments, which fit the schema already, as the struct that has a field for each of them."""
    given = {name: value for name, value in arguments.items() if value is not None}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as exc:
        raise InvalidArguments(
            f"Invalid arguments: {exc}.", next="See the tool's input schema and call again."
        ) from None


def give_untrusted(value: dict[str, Json]) -> Outcome:
    outcome = give(value)
    outcome.meta = {UNTRUSTED: True}
    return outcome


def iso(ms: float) -> str:
    """Milliseconds since 1970 as UTC; what no calendar holds becomes its end."""
    try:
        return datetime.fromtimestamp(ms / 1000.0, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return "9999-12-31T23:59:59.999Z"


def write_uri(url: str) -> str:
    """An address by RFC 3986: what it must not contain is written as its bytes; what is written so already stays."""
    return quote(url, safe=_URI)


def named(page: Any) -> dict[str, str] | None:
    """A `PageName` as a result has it."""
    return None if page is None else {"id": page.id, "url": page.url, "title": page.title}
