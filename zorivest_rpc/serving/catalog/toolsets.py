"""Toolsets: who is in them, which of them were asked for, and what that makes a list begin with.

Choosing is not limiting: a toolset that was not chosen can still be found and called. The bytes of
`toolset-config.json` are handed in; nothing here reads a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.serving.catalog.spec import Definitions, Mode, ToolSpec

__all__ = [
    "OPT_IN",
    "Selection",
    "ToolsetConfig",
    "always_loaded",
    "choose",
    "decode_config",
    "first_list",
    "is_eager",
    "members",
    "opt_in_names",
    "survives_read_only",
    "toolset_names",
]

OPT_IN: Final = ("devtools",)  # as toolsets.json has it, which is not read before it is known whether they are wanted
# Harmless in a session that may not write: loading a list, the dispatcher (it refuses what writes), the brake.
_READ_ONLY_EXCEPTIONS = frozenset(("enable_toolset", "call_tool", "zorivest_emergency_stop"))


class ToolsetConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`toolset-config.json`: what the operator wants listed, in general and per client."""

    default_toolsets: tuple[str, ...] | None = None
    client_overrides: dict[str, tuple[str, ...]] = {}
    client_modes: dict[str, Mode] = {}


class Selection(msgspec.Struct, frozen=True):
    """The toolsets and single tools a session begins with, and who asked for them."""

    toolsets: tuple[str, ...]
    tools: tuple[str, ...] = ()
    source: str = "defaults"

    @property
    def requested(self) -> bool:
        """Whether the user or operator chose toolsets; without a choice some modes list everything."""
        return self.source != "defaults"


def toolset_names(definitions: Definitions) -> tuple[str, ...]:
    return tuple(toolset.name for toolset in definitions.toolsets)


def always_loaded(definitions: Definitions) -> tuple[str, ...]:
    return tuple(toolset.name for toolset in definitions.toolsets if toolset.always_loaded)


def members(definitions: Definitions, toolset: str) -> tuple[ToolSpec, ...]:
    """The tools of a toolset in list order: those at home in it, then the guests."""
    home = [tool for tool in definitions.tools if tool.toolset == toolset]
    return (*home, *(tool for tool in definitions.tools if toolset in tool.also_in))


def is_eager(definitions: Definitions, tool: ToolSpec) -> bool:
    """Whether a client with a search of its own should load the tool at once: meta-tools and what is always loaded."""
    return not tool.toolset or tool.toolset in always_loaded(definitions)


def opt_in_names(texts: Iterable[str | None], data: bytes | None, enabled: Iterable[str] = ()) -> tuple[str, ...]:
    """The toolsets that exist only where they are named and are named: in `--toolsets` or its variable, in the bytes of
    the toolset file, or because the operator enabled them. What is wrong with the file is told when it is read."""
    named = {name for text in texts for name in _split(text) or ()}
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        config = msgspec.json.decode(data or b"{}", type=ToolsetConfig)
        named.update(config.default_toolsets or (), *config.client_overrides.values())
    named.update(enabled)
    return tuple(name for name in OPT_IN if name in named)


def survives_read_only(tool: ToolSpec) -> bool:
    """Whether `--read-only` leaves the tool in place."""
    return tool.reads_only or tool.name in _READ_ONLY_EXCEPTIONS


def decode_config(data: bytes, source: str, definitions: Definitions) -> ToolsetConfig:
    """The toolset file, or a `ConfigError` that names everything wrong with it."""
    try:
        config = msgspec.json.decode(data, type=ToolsetConfig)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise ConfigError(source, _with_nearest(str(exc))) from None
    lists = {"defaultToolsets": config.default_toolsets or ()}
    lists |= {f"clientOverrides.{client}": names for client, names in config.client_overrides.items()}
    wrong = [
        f"{key}: {_explain_unknown(name, toolset_names(definitions), 'toolset')}"
        for key, names in lists.items()
        for name in names
        if name not in (*toolset_names(definitions), "all", "default")
    ]
    if wrong:
        raise ConfigError(source, "; ".join(wrong))
    return config


def _with_nearest(problem: str) -> str:
    """What the decoder says of a key or a mode that there is not, with the one that was meant."""
    for said, known in (
        ("unknown field `", [field.encode_name for field in msgspec.structs.fields(ToolsetConfig)]),
        ("Invalid enum value '", [str(mode) for mode in Mode]),
    ):
        _, found, rest = problem.partition(said)
        if found:
            near = nearest(re.split("[`']", rest)[0], known)
            return f"{problem}; " + (f'did you mean "{near}"?' if near else f"there are {', '.join(known)}")
    return problem


def choose(
    definitions: Definitions,
    *,
    flag: str | None = None,
    environment: str | None = None,
    client_override: Sequence[str] | None = None,
    config_default: Sequence[str] | None = None,
    tools: str | None = None,
) -> Selection:
    """The selection of one client: the first of flag, environment, its override and the file's default that is given.

    `tools` adds single tools; where nothing but `tools` was given on the command line, only they and the toolsets that
    are always loaded are listed."""
    extra = _tool_names(definitions, tools)
    requests: list[tuple[str, Sequence[str] | None]] = [
        ("--toolsets", _split(flag)),
        ("ZORIVEST_TOOLSETS", _split(environment)),
        ("--tools", () if extra else None),
        ("clientOverrides", client_override),
        ("defaultToolsets", config_default),
    ]
    for source, names in requests:
        if names is not None:
            return Selection(_expand(definitions, names, source), extra, source)
    return Selection(_expand(definitions, ("default",), "defaults"), extra)


def first_list(definitions: Definitions, selection: Selection, *, lists_all: bool) -> tuple[ToolSpec, ...]:
    """What a session lists at start, without the meta-tools; `lists_all` is what the client's mode says."""
    if lists_all and not selection.requested:
        later = {toolset.name for toolset in definitions.toolsets if toolset.upstream and not toolset.default}
        return tuple(tool for tool in definitions.tools if tool.toolset not in later) if later else definitions.tools
    chosen = set(selection.toolsets)
    return tuple(
        tool for tool in definitions.tools if tool.name in selection.tools or not chosen.isdisjoint(tool.toolsets)
    )


def _split(text: str | None) -> tuple[str, ...] | None:
    names = tuple(name for part in (text or "").split(",") if (name := part.strip()))
    return names or None


def _tool_names(definitions: Definitions, text: str | None) -> tuple[str, ...]:
    known = [tool.name for tool in definitions.tools]
    names = _split(text) or ()
    for name in names:
        if name not in known:
            raise ConfigError("--tools", _explain_unknown(name, known, "tool"))
    return names


def _expand(definitions: Definitions, names: Sequence[str], source: str) -> tuple[str, ...]:
    known = toolset_names(definitions)
    chosen = set(always_loaded(definitions))
    for name in names:
        if name == "all":
            chosen.update(toolset.name for toolset in definitions.toolsets if not toolset.opt_in)
        elif name == "default":
            chosen.update(toolset.name for toolset in definitions.toolsets if toolset.default)
        elif name in known:
            chosen.add(name)
        else:
            raise ConfigError(source, _explain_unknown(name, known, "toolset"))
    return tuple(name for name in known if name in chosen)


def _explain_unknown(name: str, known: Collection[str], kind: str) -> str:
    near = nearest(name, known)
    return f'no {kind} "{name}"; ' + (f'did you mean "{near}"?' if near else f"there are {', '.join(known)}")
