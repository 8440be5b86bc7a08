"""A view whose list follows the state: pieces of bytes that are joined anew when a test flips or a count moves.

Rule 1: building a list reads counters and waits for nothing.
Rule 2: what is hidden is not forbidden. `find` knows every tool, and a call is judged by the whole schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from zorivest_rpc.errors import InvalidArguments, ToolError
from zorivest_rpc.exposure.rules import FITS_AN_ENUM, Rule
from zorivest_rpc.exposure.state import ExposureState
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.catalog.view import SOON, STEADY, View
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.revisions import Shape

__all__ = ["ExposedView", "Manner"]

_MOST_FRAGMENTS: Final = 64  # of one tool, by what is left of it


class Manner(msgspec.Struct, frozen=True):
    """How far rules shape the list of one kind of client."""

    filters: bool
    """Values without data, and tools without a value, are left out."""
    gates: bool
    """Tools that wait for a first step are left out until then."""
    meta: bool
    """Which modes there are, and how much data each has, is told."""
    hints: bool
    """The rule's own sentence is told while there is no data at all."""


class _Part:
    """A listed tool with a rule: what is left of it now, and the bytes of that."""

    __slots__ = ("counters", "fragments", "head", "is_listed", "mask", "rule", "tail", "tool", "values")

    def __init__(self, tool: Tool, rule: Rule) -> None:
        self.tool = tool
        self.rule = rule
        self.is_listed = True
        self.mask = rule.every_mode
        self.values: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self.fragments: dict[Any, tuple[bytes, bytes, tuple[tuple[str, str], ...]]] = {}
        self.head = b""
        self.tail = b""  # empty where no count stands between the two
        self.counters: tuple[tuple[str, str], ...] = ()


class ExposedView(View):
    """`states` are those of the tenants whose data the session may see; who passes `encode` can count its calls."""

    __slots__ = (
        "_base",
        "_counted",
        "_counts",
        "_encode",
        "_items",
        "_page",
        "_parts",
        "_pieces",
        "_rules",
        "_shape",
        "_structure",
        "manner",
        "marks",
        "profile",
        "states",
        "strict",
    )

    def __init__(
        self,
        listed: Iterable[Tool],
        also_found: Iterable[Tool],
        rules: Mapping[str, Rule],
        states: Sequence[ExposureState],
        manner: Manner,
        shape: Shape,
        *,
        profile: object = None,
        strict: bool = False,
        encode: Callable[[Json], bytes] = dumps,
    ) -> None:
        super().__init__(listed, also_found)
        self.profile = profile
        self.manner = manner
        self.strict = strict and manner.filters
        self.marks = b""
        self._rules = rules
        self.states = tuple(states)
        self._shape = shape
        self._encode = encode
        self._structure = self._counts = -1
        self._base: bytes | None = None
        self._page = b""
        self._pieces: list[bytes | _Part] = []
        self._parts: dict[str, _Part] = {}
        self._items: list[tuple[bytes, list[Tool]] | _Part] = []
        run: list[Tool] = []
        for tool in self.listed:
            rule = rules.get(tool.name)
            if rule is not None and self._varies(rule):
                self._close_run(run)
                run = []
                part = self._parts[tool.name] = _Part(tool, rule)
                self._items.append(part)
            else:
                run.append(tool)
        self._close_run(run)
        self._counted = any(self._tells_counts(part.rule) for part in self._parts.values())
        self.ttl_ms = SOON if self._parts and manner.filters else STEADY
        self.refresh()

    def _varies(self, rule: Rule) -> bool:
        return self.manner.filters or self._tells_counts(rule)

    def _tells_counts(self, rule: Rule) -> bool:
        return self.manner.meta and rule.has_counts

    def _close_run(self, run: list[Tool]) -> None:
        """Neighbours that no state changes are one piece."""
        if run:
            self._items.append((b",".join(tool.fragment(self._shape) for tool in run), run))

    # --- what is listed now

    def refresh(self) -> None:
        """Evaluate the rules again if a test of one of the tenants has flipped."""
        version = sum(state.structure_version for state in self.states)
        if version == self._structure:
            return
        self._structure, self._counts = version, -1
        shown: list[Tool] = []
        marks: list[str] = []
        self._pieces = []
        for item in self._items:
            if isinstance(item, tuple):
                self._pieces.append(item[0])
                shown += item[1]
                continue
            if self.manner.filters:
                self._evaluate(item)
                marks.append(f"{item.mask:x}{item.values}" if item.is_listed else "-")
            if item.is_listed:
                shown.append(item.tool)
                self._choose_fragment(item)
                self._pieces.append(item if item.tail else item.head)
        self.listed = tuple(shown)
        self.marks = "|".join(marks).encode()
        self.version = self._number_of(shown)

    def _evaluate(self, part: _Part) -> None:
        part.is_listed, part.mask = self._evaluate_rule(part.rule)
        part.values = self._values_for(part.rule) if part.rule.enum_from else ()

    def _evaluate_rule(self, rule: Rule) -> tuple[bool, int]:
        """Each tenant on its own, and then what any of them has."""
        is_listed, mask = False, 0
        for state in self.states:
            here, modes = rule.evaluate(state.truth, state.known, gates=self.manner.gates)
            is_listed, mask = is_listed or here, mask | modes
            if is_listed and mask == rule.every_mode:  # as with a tenant of which nothing is known yet
                break
        return is_listed, mask

    def _values_for(self, rule: Rule) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Values of a set as an enum: of one tenant alone, few enough, and each of them harmless in a schema."""
        if len(self.states) != 1:
            return ()
        found = []
        for source in rule.enum_from:
            values = self.states[0].sets[source.set]
            if values and len(values) <= source.most and all(map(FITS_AN_ENUM.match, values)):
                found.append((source.input, values))
        return tuple(found)

    def _choose_fragment(self, part: _Part) -> None:
        key = (part.mask, part.values)
        found = part.fragments.get(key)
        if found is None:
            if len(part.fragments) >= _MOST_FRAGMENTS:
                del part.fragments[next(iter(part.fragments))]
            found = part.fragments[key] = self._make_fragment(part)
        part.head, part.tail, part.counters = found

    def _make_fragment(self, part: _Part) -> tuple[bytes, bytes, tuple[tuple[str, str], ...]]:
        rule, definition = part.rule, self._reduce(part)
        if not self._tells_counts(rule):
            return self._encode(definition), b"", ()
        meta = definition.pop("_meta", {})
        if rule.modes:
            meta = {**meta, "available_modes": self._modes_in(rule, part.mask)}
        head = self._encode(definition)[:-1] + b',"_meta":' + self._encode(meta)[:-1]
        head += b',"data_counts":' if meta else b'"data_counts":'
        counters = [(mode.value, mode.count) for mode in _chosen(rule, part.mask) if mode.count]
        return head, b"}}", (*counters, *rule.counts)

    def _reduce(self, part: _Part) -> dict[str, Json]:
        """The definition with the values that are left; `default`, bounds and all else stay as they are."""
        definition = part.tool.shape_definition(self._shape)
        changed = dict(part.values)
        chooser = part.rule.chooser
        modes = self._modes_in(part.rule, part.mask)
        enums: dict[str, Sequence[str]] = {**changed, **({chooser: modes} if chooser else {})}
        if self.manner.filters and enums:
            schema = definition["inputSchema"]
            properties = {
                name: {**entry, "enum": list(enums[name])} if name in enums else entry
                for name, entry in schema["properties"].items()
            }
            definition["inputSchema"] = {**schema, "properties": properties}
        return definition

    def _modes_in(self, rule: Rule, mask: int) -> list[str]:
        return [mode.value for mode in _chosen(rule, mask)]

    def definition(self, name: str) -> dict[str, Json] | None:
        """A listed tool as its bytes say; None where it is not listed or has no rule."""
        part = self._parts.get(name)
        if part is None or not part.is_listed:
            return None
        definition = self._reduce(part)
        if part.tail:
            meta = definition.pop("_meta", {})
            modes = {"available_modes": self._modes_in(part.rule, part.mask)} if part.rule.modes else {}
            definition["_meta"] = {**meta, **modes, **self._count_members(part)}
        return definition

    # --- its bytes

    def page(self, shape: Shape, start: int, size: int) -> bytes:
        self.refresh()
        if start or size < len(self.listed):
            pieces = [self._render_tool(tool) for tool in self.listed[start : start + size]]
            return b'"tools":[%b]' % b",".join(pieces)
        counts = sum(state.count_version for state in self.states) if self._counted else 0
        if counts != self._counts:
            pieces = [piece if isinstance(piece, bytes) else self._render(piece) for piece in self._pieces]
            self._page = b'"tools":[%b]' % b",".join(pieces)
            self._counts = counts
        return self._page

    def _render_tool(self, tool: Tool) -> bytes:
        part = self._parts.get(tool.name)
        return tool.fragment(self._shape) if part is None else self._render(part)

    def _render(self, part: _Part) -> bytes:
        if not part.tail:
            return part.head
        members = self._count_members(part)
        rendered = part.head + self._encode(members["data_counts"])
        if "hint" in members:
            rendered += b',"hint":' + self._encode(members["hint"])
        return rendered + part.tail

    def _count_members(self, part: _Part) -> dict[str, Json]:
        """What is unknown is left out: a sum without one tenant's part would be another figure."""
        counts: dict[str, int] = {}
        for label, counter in part.counters:
            total = 0
            for state in self.states:
                value = state.counters[counter]
                if value is None:
                    break
                total += value
            else:
                counts[label] = total
        members: dict[str, Json] = {"data_counts": counts}
        if self.manner.hints and part.rule.hint and counts and not any(counts.values()):
            members["hint"] = part.rule.hint
        return members

    def digest(self, shape: Shape) -> bytes:
        """Of names, modes and sets, and of the definitions as such; never of counts."""
        self.refresh()
        if self._base is None:
            whole = blake2b(digest_size=16)
            for item in self._items:
                whole.update(item[0] if isinstance(item, tuple) else item.tool.fragment(shape))
            self._base = whole.digest()
        return blake2b(self.marks, digest_size=16, key=self._base).digest()

    # --- calls

    def is_hidden(self, name: str) -> bool:
        """Whether a tool that the session has loaded is not listed now."""
        part = self._parts.get(name)
        return part is not None and not part.is_listed

    def hidden_modes(self, name: str) -> list[str]:
        part = self._parts.get(name)
        if part is None or not self.manner.filters:
            return []
        return self._modes_in(part.rule, part.rule.every_mode & ~part.mask)

    @property
    def ruled(self) -> Iterable[str]:
        """The tools of this list that have a rule, listed now or not."""
        return self._parts

    def waiting_for(self, flag: str) -> tuple[str, ...]:
        """The tools of this list that the flag, raised now, brought into it; none where gates do not apply."""
        if not (self.manner.filters and self.manner.gates):
            return ()
        self.refresh()
        return tuple(name for name, part in self._parts.items() if part.rule.gate_flag == flag and part.is_listed)

    def check(self, tool: Tool, arguments: dict[str, Json], taken: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """A mode that is missing or does not exist is told with those that there are, before all else is looked at."""
        rule = self._rules.get(tool.name)
        if rule is not None:
            self._check_mode(tool.name, rule, arguments)
        return tool.check(arguments, taken)

    def _check_mode(self, name: str, rule: Rule, arguments: dict[str, Json]) -> None:
        self.refresh()
        chooser, mode = rule.chooser, arguments.get(rule.chooser) if rule.chooser else ""
        mask = self._evaluate_rule(rule)[1]
        now = ", ".join(self._modes_in(rule, mask)) or "none"
        values = [each.value for each in rule.modes]
        if chooser and mode is None:
            next = f"Call again with {chooser} set to one of: {now}."
            raise InvalidArguments(f"{chooser} is required. Available now: {now}.", next=next)
        if chooser and isinstance(mode, str) and mode not in values:
            valid = ", ".join(values)
            words = f'Unknown {chooser} "{shorten(mode)}". Valid: {valid}.'
            raise InvalidArguments(words, next=f"Call again with {chooser} set to one of: {valid}.")
        if self.strict and name in self._parts:
            self._refuse_hidden(name, rule, mode, now)

    def _refuse_hidden(self, name: str, rule: Rule, mode: Json, now: str) -> None:
        """What the operator's --exposure-strict makes of a call that is only hidden else."""
        part = self._parts[name]
        if rule.modes and isinstance(mode, str) and mode not in self._modes_in(rule, part.mask):
            words = f'"{name}" mode "{mode}" has no data yet. Available now: {now}.'
            raise ToolError(words, code="no_data", next=f"Use one of: {now}.")
        if not part.is_listed:
            others = ", ".join(each for each, other in self._parts.items() if other.is_listed) or "none"
            words = f'"{name}" has no data yet. Available now: {others}.'
            raise ToolError(words, code="no_data", next=f"Use one of: {others}.")


def _chosen(rule: Rule, mask: int) -> Iterable[Any]:
    return (mode for place, mode in enumerate(rule.modes) if mask >> place & 1)
