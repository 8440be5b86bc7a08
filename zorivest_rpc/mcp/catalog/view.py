"""What one session lists and finds: an immutable snapshot of tools with its encoded pages.

`find` may know more than `listed`: a tool that is not shown can still be called, where policy allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.protocol.revisions import Shape

__all__ = ["View"]


class View:
    __slots__ = ("_found", "_pages", "listed", "version")

    def __init__(self, listed: Iterable[Tool], also_found: Iterable[Tool] = ()) -> None:
        self.listed = tuple(listed)
        self._found: Mapping[str, Tool] = {tool.name: tool for tool in (*also_found, *self.listed)}
        self._pages: dict[tuple[Shape, int, int], bytes] = {}
        self.version = crc32("\n".join(tool.name for tool in self.listed).encode())

    def find(self, name: str) -> Tool | None:
        return self._found.get(name)

    def nearest(self, name: str) -> str | None:
        """The name most like one that is not found, if any is near."""
        from zorivest_rpc.mcp.catalog.names import nearest

        return nearest(name, self._found)

    def page(self, shape: Shape, start: int, size: int) -> bytes:
        """`"tools":[…]` of one page, encoded once for all who see it."""
        key = (shape, start, size)
        page = self._pages.get(key)
        if page is None:
            shown = b",".join(tool.fragment(shape) for tool in self.listed[start : start + size])
            page = self._pages[key] = b'"tools":[%b]' % shown
        return page
