"""Reads the files below `schemas/`: quickly at start, thoroughly when something is wrong or on request.

`check` applies every rule to every file and returns all problems together, which takes the better part of a second.
`load` decodes with msgspec alone and takes a few milliseconds; it relies on `checked.json`, the sum of the files that
were found sound, and checks files with another sum before it serves them. Nothing else in `catalog/` touches a disk."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from zlib import crc32

import msgspec

from zorivest_rpc.errors import CatalogError
from zorivest_rpc.serving.catalog.spec import ClientTable, Definitions, ToolsetSpec, ToolSpec

__all__ = [
    "CHECKED",
    "check",
    "find_opt_in",
    "fingerprint",
    "load",
    "load_clients",
    "make_stamp",
    "schemas_dir",
    "with_tenancy",
]

CHECKED = "checked.json"
_ALWAYS = "sum"
STATE = ("exposure", "state.json")


class _Toolsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolsets: tuple[ToolsetSpec, ...]


def schemas_dir() -> str:
    """Where the files are: inside the installed package, or beside it in a clone."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    installed = os.path.join(package, "schemas")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(package), "schemas")


def load(root: str | None = None, opt_in: Collection[str] = ()) -> Definitions:
    """The definitions below `root`; raises an `ExceptionGroup` of all `CatalogError`s if there is a problem.

    A toolset that is `opt_in` exists only where it is named: its files are not read otherwise."""
    root = root or schemas_dir()
    files = _Files(root)
    chosen = {name: _Files(root) for name in opt_in}
    try:
        definitions = _read(files, chosen)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CatalogError) as exc:
        problems = check(root)
        if not problems:  # only the fast path saw it: say what it saw
            problems = [exc if isinstance(exc, CatalogError) else CatalogError(root, "", str(exc))]
        raise ExceptionGroup("the tool catalogue cannot be served", problems) from None
    sums = {_ALWAYS: files.sum} | {name: own.sum for name, own in chosen.items()}
    if not sums.items() <= _read_stamp(root).items() and (problems := check(root)):
        raise ExceptionGroup("the tool catalogue cannot be served", problems)
    return definitions


def find_opt_in(name: str, root: str | None = None) -> str | None:
    """The toolset that has a tool of this name and exists only where it is named."""
    root = root or schemas_dir()
    rows = msgspec.json.decode(_bytes(os.path.join(root, "toolsets.json")), type=_Toolsets).toolsets
    owners = (row.name for row in rows if row.opt_in and name.isidentifier())
    return next((owner for owner in owners if os.path.isfile(os.path.join(root, "tools", owner, f"{name}.json"))), None)


def fingerprint(root: str | None = None) -> str:
    """The sum over the files that are always read, by which `load` knows that they have been checked."""
    return make_stamp(root)[_ALWAYS]


def make_stamp(root: str | None = None) -> dict[str, str]:
    """What `checked.json` holds once the files are sound: that sum, and one for each toolset that is `opt_in`."""
    root = root or schemas_dir()
    files = _Files(root)
    rows = msgspec.json.decode(_bytes(os.path.join(root, "toolsets.json")), type=_Toolsets).toolsets
    chosen = {row.name: _Files(root) for row in rows if row.opt_in}
    _read(files, chosen)
    return {_ALWAYS: files.sum} | {name: own.sum for name, own in chosen.items()}


def _read_stamp(root: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(_bytes(os.path.join(root, CHECKED)), type=dict[str, str])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def load_clients(root: str | None = None) -> ClientTable:
    """The client table alone, for callers that need no tools."""
    return msgspec.json.decode(_bytes(os.path.join(root or schemas_dir(), "clients.json")), type=ClientTable)


def check(root: str | None = None) -> list[CatalogError]:
    """Every problem of every file, in the order of the files; empty if the catalogue is sound."""
    from zorivest_rpc.serving.catalog import rules

    root = root or schemas_dir()
    problems: list[CatalogError] = []

    def text(*parts: str) -> bytes | None:
        try:
            return _bytes(os.path.join(root, *parts))
        except OSError as exc:
            problems.append(CatalogError("/".join(parts), "", exc.strerror or "cannot be read"))
            return None

    shape, toolsets, clients = text("tool.schema.json"), text("toolsets.json"), text("clients.json")
    state = text(*STATE)
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
    return problems + rules.problems(shape, toolsets, clients, tools, state)


class _Files:
    """Reads files below a directory and sums up what it read."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._sum = 0

    @property
    def sum(self) -> str:
        return f"{self._sum:08x}"

    def read(self, *parts: str) -> bytes:
        data = _bytes(os.path.join(self.root, *parts))
        self._sum = crc32(data, crc32("/".join(parts).encode(), self._sum))
        return data


def _read(files: _Files, chosen: Mapping[str, _Files]) -> Definitions:
    rows = msgspec.json.decode(files.read("toolsets.json"), type=_Toolsets).toolsets
    known = [toolset.name for toolset in rows]
    toolsets = tuple(toolset for toolset in rows if not toolset.opt_in or toolset.name in chosen)
    for directory in _names(os.path.join(files.root, "tools"), directories=True):
        if directory not in known:
            raise CatalogError(f"tools/{directory}", "", f"no toolset {directory!r}")
    decoder = msgspec.json.Decoder(ToolSpec)
    seen: set[str] = set()
    tools = [
        tool
        for toolset in toolsets
        for tool in _tools(chosen.get(toolset.name, files), ("tools", toolset.name), toolset.name, decoder, seen)
    ]
    for tool in tools:
        for other in tool.also_in:
            if other not in known or other == tool.toolset:
                raise CatalogError(f"tools/{tool.toolset}/{tool.name}.json", "/also_in", f"no other toolset {other!r}")
    meta = tuple(_tools(files, ("meta",), "", decoder, seen))
    clients = msgspec.json.decode(files.read("clients.json"), type=ClientTable)
    files.read("tool.schema.json")  # no definition comes from it, but a file that was checked was checked by it
    names = msgspec.json.decode(files.read(*STATE), type=dict[str, dict[str, str]])
    shared = tuple(tool for tool in tools if not tool.tenancy)
    of_tenancy = tuple(tool for tool in tools if tool.tenancy)
    return Definitions(toolsets, shared, meta, clients, names, of_tenancy=of_tenancy)


def with_tenancy(definitions: Definitions) -> Definitions:
    """The catalogue of a server that acts for several clients."""
    known = [toolset.name for toolset in definitions.toolsets]
    together = sorted(
        (*definitions.tools, *definitions.of_tenancy),
        key=lambda tool: (known.index(tool.toolset), tool.order, tool.name),
    )
    return msgspec.structs.replace(definitions, tools=tuple(together), of_tenancy=())


def _tools(
    files: _Files, directory: tuple[str, ...], toolset: str, decoder: msgspec.json.Decoder[ToolSpec], seen: set[str]
) -> list[ToolSpec]:
    found: list[ToolSpec] = []
    for name in _names(os.path.join(files.root, *directory)):
        tool = decoder.decode(files.read(*directory, name + ".json"))
        if tool.name != name or name in seen or (tool.rest is None) == (tool.python is None):
            raise CatalogError(
                f"{'/'.join(directory)}/{name}.json", "/name", "misnamed, not unique, or without one way to run"
            )
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


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()
