"""Who is talking to us: a client's name and capabilities, and what the operator said, become a `Profile`.

The decision walks one list of sources, strongest first, and keeps the reason for the first that answers. Names are a
hint, never an error: a missing, huge or broken one is cleaned and leads to the careful default. The facts about
clients are data (`clients.json`); nothing here is remembered between two calls."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar

import msgspec

from zorivest_rpc.serving.catalog.spec import ClientSpec, ClientTable, Json, Mode, ModeSpec, Traits

__all__ = [
    "Profile",
    "client_entry",
    "detect",
    "find_client",
    "normalise",
    "parse_mode",
    "profile_of",
    "shown_name",
]

T = TypeVar("T")

_VIA = re.compile(r"\s*\(via\b[^)]*\)?\s*\Z", re.IGNORECASE)
_NOT_A_WORD = re.compile(r"[^a-z0-9]+")
_LONGEST = 64
_LOOKED_AT = 512  # of a name that may be 10 KB


class Profile(msgspec.Struct, frozen=True, cache_hash=True):
    """What the server knows and decided about a client; `reason` is for people, `source` for programs."""

    client: str
    title: str
    name: str
    version: str
    mode: Mode
    source: Literal["override", "toolset-config", "name", "vendor", "capability", "environment", "default"]
    reason: str
    traits: Traits
    elicitation: tuple[str, ...]
    implied: ModeSpec

    @property
    def tier(self) -> Literal["minimal", "rich"]:
        return self.implied.tier

    @property
    def results(self) -> Literal["detailed", "concise"]:
        """How much of a result the client gets; only in a mode that leaves it open does the client's trait decide."""
        return self.traits.compression if self.implied.results == "by-client" else self.implied.results


def parse_mode(text: str | None) -> tuple[Mode | None, str | None]:
    """An operator's override as a mode, or None with a warning where it is none; `auto` and nothing are no override."""
    word = (text or "").strip().lower()
    if word in ("", "auto"):
        return None, None
    try:
        return Mode(word), None
    except ValueError:
        return None, f"client mode {shown_name(text)!r} is not one of auto, anthropic, dynamic, static; ignored"


def normalise(name: object) -> str:
    """A client's name as words joined by `-`, without what a proxy appended; empty if there is none."""
    if not isinstance(name, str):
        return ""
    folded = unicodedata.normalize("NFKD", _VIA.sub("", name[:_LOOKED_AT]))
    plain = "".join(character for character in folded if not unicodedata.combining(character))
    return _NOT_A_WORD.sub("-", plain.casefold()).strip("-")


def shown_name(name: object) -> str:
    """A name fit for a log line: printable and at most 64 characters."""
    if not isinstance(name, str):
        return ""
    return "".join(character if character.isprintable() else " " for character in name[:_LOOKED_AT]).strip()[:_LONGEST]


def find_client(table: ClientTable, normalised: str) -> ClientSpec | None:
    """The family a normalised name belongs to: exact names first, then prefixes that end at a word."""
    for client in table.clients:
        if normalised in client.names:
            return client
    for client in table.clients:
        for prefix in client.prefixes:
            if normalised == prefix or normalised.startswith(prefix + "-"):
                return client
    return None


def client_entry(entries: Mapping[str, T], name: object, table: ClientTable) -> T | None:
    """The entry of an operator's map that is meant for this client: a key stands for every name of its family."""
    wanted = normalise(name)
    by_name = {normalise(key): value for key, value in entries.items()}
    if wanted in by_name:
        return by_name[wanted]
    family = find_client(table, wanted) if wanted else None
    if family is None:
        return None
    for key, value in by_name.items():
        if key == family.id or find_client(table, key) is family:
            return value
    return None


# long: the rules in their order, one a line, and the one place that makes a profile of them
def detect(
    table: ClientTable,
    *,
    name: object = None,
    version: object = None,
    capabilities: Json = None,
    override: Mode | None = None,
    client_modes: Mapping[str, Mode] | None = None,
    user_agent: str | None = None,
    claude_code_environment: bool = False,
) -> Profile:
    """The profile of the client that sent this `clientInfo` and these capabilities.

    A subscription to tool changes says nothing here: it is another request, and in the revision that has them no
    request is judged by another. `claude_code_environment`, which only a stdio server may set, says that the process
    runs inside Claude Code."""
    normalised = normalise(name)
    known = find_client(table, normalised) if normalised else None
    client = known or table.unknown

    states_it = _declares_list_changed(capabilities)

    def profile(mode: Mode, source: Json, reason: str) -> Profile:
        traits = _traits_of(client, name, version, states_it)
        if source in ("vendor", "environment"):  # a limit that was assumed of a stranger is not one of these clients
            traits = msgspec.structs.replace(traits, tool_limit=None)
        return Profile(
            client=client.id,
            title=client.title,
            name=shown_name(name),
            version=shown_name(version),
            mode=mode,
            source=source,
            reason=reason,
            traits=traits,
            elicitation=_elicitation(capabilities),
            implied=table.modes[mode],
        )

    if override is not None:
        return profile(override, "override", f"the operator chose {override} for every client")
    chosen = client_entry(client_modes, name, table) if client_modes else None
    if chosen is not None:
        return profile(chosen, "toolset-config", f"clientModes of the toolset file says {chosen} for this client")
    if known is not None and not (known.mode is Mode.STATIC and states_it):
        return profile(known.mode, "name", f"{known.title} is known by the name {normalised!r}")
    if known is None and (word := _vendor_word(table.vendor_words, normalised, user_agent)) is not None:
        return profile(Mode.ANTHROPIC, "vendor", f"its name or user agent contains {word!r}")
    if states_it:
        return profile(Mode.DYNAMIC, "capability", "it declared tools.listChanged")
    if claude_code_environment and normalised in table.generic_names:
        return profile(Mode.ANTHROPIC, "environment", "it has no name of its own and runs inside Claude Code")
    return profile(Mode.STATIC, "default", "its name is not known" if normalised else "it sent no name")


def _traits_of(client: ClientSpec, name: object, version: object, states_it: bool) -> Traits:
    traits = _traits(client, version)
    if states_it and traits.list_changed in ("no", "unknown"):  # what a client says of itself beats our table
        traits = msgspec.structs.replace(traits, list_changed="yes")
    if isinstance(name, str) and _VIA.search(name[:_LOOKED_AT]):
        # a proxy started us, and which hints it hands on to the client behind it is not known
        traits = msgspec.structs.replace(traits, asks_for=())
    return traits


def profile_of(table: ClientTable, client: str) -> Profile | None:
    """The profile of a family as a person names it (`--as cursor`), by id or by any name; None if there is none."""
    wanted = normalise(client)
    for known in table.clients:
        if known.id == wanted:
            name = (*known.names, *known.prefixes)[0]
            return detect(table, name=name)
    return detect(table, name=client) if find_client(table, wanted) is not None else None


def _traits(client: ClientSpec, version: object) -> Traits:
    """The traits, as they were at the client's version where that is older than a known change."""
    sent = _version(version)
    traits = client.traits
    for patch in client.before:
        if sent and sent < _version(patch.version):
            traits = msgspec.convert({**msgspec.to_builtins(traits), **patch.traits}, Traits)
    return traits


def _version(text: object) -> tuple[int, ...]:
    """The leading numbers of a version; empty if it has none, which compares with nothing."""
    match = re.match(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,3})", text.strip()) if isinstance(text, str) else None
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _vendor_word(words: Iterable[str], normalised: str, user_agent: str | None) -> str | None:
    haystacks = (normalised, (user_agent or "")[:_LOOKED_AT].lower())
    return next((word for word in words if any(word in text for text in haystacks)), None)


def _declares_list_changed(capabilities: Json) -> bool:
    tools = capabilities.get("tools") if isinstance(capabilities, dict) else None
    return isinstance(tools, dict) and tools.get("listChanged") is True


def _elicitation(capabilities: Json) -> tuple[str, ...]:
    """The kinds of question the client declared; an empty declaration means forms, as it always has."""
    declared = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(declared, dict):
        return ()
    kinds = tuple(kind for kind in ("form", "url") if isinstance(declared.get(kind), dict))
    return kinds or ("form",)
