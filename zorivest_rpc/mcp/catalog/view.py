"""What one session lists and finds: an immutable snapshot of tools with its encoded pages.

`find` may know more than `listed`: a tool that is not shown can still be called, where policy allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.revisions import Shape

__all__ = ["SOON", "STEADY", "View"]

SOON: Final = 5_000  # ms for which a list is good that data, or another server, can change
STEADY: Final = 300_000


class View:
    __slots__ = ("_digest", "_found", "_pages", "listed", "ttl_ms", "version")

    def __init__(self, listed: Iterable[Tool], also_found: Iterable[Tool] = ()) -> None:
        self.listed = tuple(listed)
        self._found: Mapping[str, Tool] = {tool.name: tool for tool in (*also_found, *self.listed)}
        self._pages: dict[tuple[Shape, int, int], bytes] = {}
        self._digest: tuple[Shape, bytes] | None = None
        self.ttl_ms: int | None = None
        """For how long a client may keep the list, where that is not what the server says of all its lists."""
        self.version = self._number_of(self.listed)

    @staticmethod
    def _number_of(listed: Sequence[Tool]) -> int:
        return crc32("\n".join(tool.name for tool in listed).encode())

    def find(self, name: str) -> Tool | None:
        return self._found.get(name)

    def nearest(self, name: str) -> str | None:
        """The name most like one that is not found, if any is near."""
        from zorivest_rpc.mcp.catalog.names import nearest

        return nearest(name, self._found)

    def check(self, tool: Tool, arguments: dict[str, Json], taken: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """The arguments of a call as the handler is given them, or a ToolError that says what is wrong with them.

        `taken` are those that were taken out before."""
        return tool.check(arguments, taken)

    def digest(self, shape: Shape) -> bytes:
        """Equal for equal lists, by which a stream knows whether there is anything to tell."""
        if self._digest is None or self._digest[0] is not shape:
            from _blake2 import blake2b  # the same, without hashlib, which loads OpenSSL: 1.5 ms before a first list

            whole = self.page(shape, 0, len(self.listed))
            self._digest = (shape, blake2b(whole, digest_size=16).digest())
        return self._digest[1]

    def page(self, shape: Shape, start: int, size: int) -> bytes:
        """`"tools":[…]` of one page, encoded once for all who see it."""
        key = (shape, start, size)
        page = self._pages.get(key)
        if page is None:
            shown = b",".join(tool.fragment(shape) for tool in self.listed[start : start + size])
            page = self._pages[key] = b'"tools":[%b]' % shown
        return page
