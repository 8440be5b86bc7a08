"""Modules are changed as they are imported, so that nothing is imported earlier than the product imports it."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    Change: TypeAlias = Callable[[ModuleType], None]

__all__ = ["change_imports", "switch_on"]

EDGES = {
    "zorivest_rpc.gateway.assignment": "share_servers",
    "zorivest_rpc.app.journal": "change_journal",
    "zorivest_rpc.app.tenancy": "keep_files",
    "zorivest_rpc.tenants.embedded": "keep_directory",
    "zorivest_rpc.devtools.watch": "keep_page_key",
    "zorivest_rpc.mcp.transports.memory": "translate_pipe",
    "zorivest_rpc.mcp.transports.stdio": "translate_pipe",
    "zorivest_rpc.mcp.transports.http": "translate_http",
}
"""Modules of the product, and the function of `tests.tenancy.edges` that changes each."""


def switch_on() -> None:
    """Tenancy, in this process."""
    change_imports({name: _by_edge(edge) for name, edge in EDGES.items()})


def _by_edge(edge: str) -> Change:
    def change(module: ModuleType) -> None:
        from tests.tenancy import edges

        getattr(edges, edge)(module)

    return change


def change_imports(changes: Mapping[str, Change]) -> None:
    """Those that are imported already are changed now; a process that pytest started to run tests in asks twice."""
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    for name in [name for name in changes if name in sys.modules]:
        changes[name](sys.modules[name])
    left = {name: each for name, each in changes.items() if name not in sys.modules}
    sys.meta_path.insert(0, _Finder(left))


class _Finder:
    def __init__(self, changes: dict[str, Change]) -> None:
        self._changes = changes

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._changes:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._changes.pop(fullname))  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, inner: Any, change: Change) -> None:
        self._inner = inner
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._change(module)
