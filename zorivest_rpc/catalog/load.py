"""Reads the files below `schemas/`: quickly at start, thoroughly when something is wrong or somebody asks.

`load` decodes with msgspec alone and takes about a millisecond. `check` applies every rule to every file and returns
all problems together; `load` falls back on it to explain why it failed. Nothing else in `catalog/` touches a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from zorivest_rpc.catalog.spec import ClientTable, Definitions, ToolsetSpec, ToolSpec
from zorivest_rpc.errors import CatalogError

__all__ = ["check", "load", "load_clients", "schemas_dir"]


T = TypeVar("T")


class _Toolsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolsets: tuple[ToolsetSpec, ...]


def schemas_dir() -> str:
    """Where the files are: inside the installed package, or beside it in a clone."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    installed = os.path.join(package, "schemas")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "schemas")


def load(root: str | None = None) -> Definitions:
    """Every definition below `root`; raises an `ExceptionGroup` of all `CatalogError`s if one cannot be served."""
    root = root or schemas_dir()
    try:
        return _read(root)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CatalogError) as exc:
        problems = check(root)
        if not problems:  # only the fast path saw it: say what it saw
            problems = [exc if isinstance(exc, CatalogError) else CatalogError(root, "", str(exc))]
        raise ExceptionGroup("the tool catalogue cannot be served", problems) from None


def load_clients(root: str | None = None) -> ClientTable:
    """The client table alone, for callers that need no tools."""
    return _decode(ClientTable, os.path.join(root or schemas_dir(), "clients.json"))


def check(root: str | None = None) -> list[CatalogError]:
    """Every problem of every file, in the order of the files; empty if the catalogue is sound."""
    from zorivest_rpc.catalog import rules

    root = root or schemas_dir()
    problems: list[CatalogError] = []

    def text(*parts: str) -> bytes | None:
        try:
            return _bytes(os.path.join(root, *parts))
        except OSError as exc:
            problems.append(CatalogError("/".join(parts), "", exc.strerror or "cannot be read"))
            return None

    shape, toolsets, clients = text("tool.schema.json"), text("toolsets.json"), text("clients.json")
    tools = [
        rules.ToolFile(f"tools/{toolset}/{name}.json", toolset, name, data)
        for toolset in _names(os.path.join(root, "tools"), directories=True)
        for name in _names(os.path.join(root, "tools", toolset))
        if (data := text("tools", toolset, name + ".json")) is not None
    ]
    tools += [
        rules.ToolFile(f"meta/{name}.json", None, name, data)
        for name in _names(os.path.join(root, "meta"))
        if (data := text("meta", name + ".json")) is not None
    ]
    return problems + rules.problems(shape, toolsets, clients, tools)


def _read(root: str) -> Definitions:
    toolsets = _decode(_Toolsets, os.path.join(root, "toolsets.json")).toolsets
    known = [toolset.name for toolset in toolsets]
    base = os.path.join(root, "tools")
    for directory in _names(base, directories=True):
        if directory not in known:
            raise CatalogError(f"tools/{directory}", "", f"no toolset {directory!r}")
    decoder = msgspec.json.Decoder(ToolSpec)
    seen: set[str] = set()
    tools = [tool for name in known for tool in _tools(os.path.join(base, name), name, decoder, seen)]
    for tool in tools:
        for other in tool.also_in:
            if other not in known or other == tool.toolset:
                raise CatalogError(f"tools/{tool.toolset}/{tool.name}.json", "/also_in", f"no other toolset {other!r}")
    meta = tuple(_tools(os.path.join(root, "meta"), "", decoder, seen))
    return Definitions(toolsets, tuple(tools), meta, load_clients(root))


def _tools(directory: str, toolset: str, decoder: msgspec.json.Decoder[ToolSpec], seen: set[str]) -> list[ToolSpec]:
    found: list[ToolSpec] = []
    for name in _names(directory):
        tool = decoder.decode(_bytes(os.path.join(directory, name + ".json")))
        if tool.name != name or name in seen or (tool.rest is None) == (tool.python is None):
            raise CatalogError(f"{directory}/{name}.json", "/name", "misnamed, not unique, or without one way to run")
        seen.add(name)
        msgspec.structs.force_setattr(tool, "toolset", toolset)  # the directory is the fact; a file cannot state it
        found.append(tool)
    found.sort(key=lambda tool: (tool.order, tool.name))
    return found


def _names(directory: str, *, directories: bool = False) -> Iterator[str]:
    """The stems of the JSON files in a directory, or its subdirectories, sorted; none if it does not exist."""
    try:
        entries = sorted(os.listdir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.startswith((".", "_")):
            continue
        if not directories:
            if entry.endswith(".json"):
                yield entry[: -len(".json")]
        elif os.path.isdir(os.path.join(directory, entry)):
            yield entry


def _decode(kind: type[T], path: str) -> T:
    return msgspec.json.decode(_bytes(path), type=kind)


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
