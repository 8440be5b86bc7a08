"""Rules for what is not worth reading: entries that match one are left out of answers, and stay in their buffers."""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from zorivest_rpc.devtools.entries import Entry
from zorivest_rpc.devtools.frames import Level, Log, Request, Socket
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["BUILT_IN", "MOST_RULES", "Category", "Noise", "Rule", "check_pattern"]

Category: TypeAlias = Literal["console", "network", "websocket"]
MOST_RULES: Final = 100
LONGEST_PATTERN: Final = 256
_SEARCHED: Final = 1_024  # characters of each text that a pattern is tried on
_REPEATED: Final = 3  # times that make an entry worth a proposal
_MOST_PROPOSALS: Final = 20
_MOST_JUDGED: Final = 5_000


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """All fields that are given must match."""

    category: Category
    pattern: str | None = None
    level: Level | None = None
    method: str | None = None
    status_min: int | None = None
    status_max: int | None = None
    reason: str = ""
    id: str = ""


BUILT_IN: Final = (
    Rule("console", r"^(chrome|moz|safari-web)-extension://", reason="an extension of the browser", id="builtin-1"),
    Rule("console", r"Unchecked runtime\.lastError", reason="an extension of the browser", id="builtin-2"),
    Rule("console", r"DevTools failed to load (source map|SourceMap)", reason="a source map", id="builtin-3"),
    Rule("console", r"Download the (React|Vue) Dev", reason="an advertisement of a framework", id="builtin-4"),
    Rule("console", r"^\[(HMR|vite|webpack-dev-server|WDS)\]", reason="a development server", id="builtin-5"),
    Rule("network", r"/favicon\.ico", reason="the page's icon", id="builtin-6"),
    Rule("network", r"\.map(\?|\Z)", reason="a source map", id="builtin-7"),
    Rule("network", method="OPTIONS", reason="a preflight", id="builtin-8"),
    Rule("network", r"^(chrome|moz|safari-web)-extension://", reason="an extension of the browser", id="builtin-9"),
    Rule("network", r"hot-update\.js(on)?|/__webpack_hmr|/@vite/", reason="a development server", id="builtin-10"),
    Rule("websocket", r"/sockjs-node|vite-hmr|/_next/webpack-hmr", reason="a development server", id="builtin-11"),
)


class Noise:
    """The rules of one tenant, each compiled once."""

    def __init__(self) -> None:
        self._counted = 0
        self._rules: dict[str, Rule] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        self._judged: dict[int, bool] = {}
        self.reset()

    def all(self) -> list[Rule]:
        return list(self._rules.values())

    def add(self, rules: Iterable[Rule]) -> list[Rule]:
        """All of them, or none where one is wrong; a rule that is there already is not added twice."""
        added: list[Rule] = []
        for rule in rules:
            if all(getattr(rule, name) is None for name in ("pattern", "level", "method", "status_min", "status_max")):
                words = "A rule needs a pattern, a level, a method or a status, else it would hide everything."
                raise ToolError(words, code="empty_rule", next="Add a pattern.")
            bare = msgspec.structs.replace(
                rule, id="", reason="", pattern=None if rule.pattern is None else check_pattern(rule.pattern)
            )
            known = (*self._rules.values(), *added)
            if not any(msgspec.structs.replace(each, id="", reason="") == bare for each in known):
                added.append(
                    msgspec.structs.replace(bare, reason=rule.reason, id=f"rule-{self._counted + len(added) + 1}")
                )
        own = sum(not id.startswith("builtin-") for id in self._rules)
        if own + len(added) > MOST_RULES:
            words = f"There are at most {MOST_RULES} noise rules; remove some first."
            raise ToolError(words, code="too_many_rules", next="configure(noise_rule, remove) removes one.")
        self._counted += len(added)
        self._keep(added)
        return added

    def remove(self, id: str) -> Rule:
        rule = self._rules.pop(id, None)
        if rule is None:
            known = ", ".join(self._rules) or "none"
            words = f'No noise rule "{id}". Rules: {known}.'
            raise ToolError(words, code="unknown_rule", next="configure(noise_rule, list) shows the rules.")
        self._patterns.pop(id, None)
        self._judged.clear()
        return rule

    def reset(self) -> None:
        """Back to what is built in."""
        self._rules.clear()
        self._patterns.clear()
        self._keep(BUILT_IN)

    def _keep(self, rules: Iterable[Rule]) -> None:
        self._judged.clear()
        for rule in rules:
            self._rules[rule.id] = rule
            if rule.pattern is not None:
                self._patterns[rule.id] = re.compile(rule.pattern)

    def hides(self, entry: Entry[Log] | Entry[Request] | Entry[Socket]) -> bool:
        """Judged once for each entry, until the rules change."""
        known = self._judged.get(entry.number)
        if known is None:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            known = any(self._matches(rule, entry.item) for rule in self._rules.values())
            self._judged[entry.number] = known
        return known

    def _matches(self, rule: Rule, item: Log | Request | Socket) -> bool:
        if isinstance(item, Log):
            if rule.category != "console" or rule.level not in (None, item.level):
                return False
            return self._finds(rule, item.message, item.source)
        if isinstance(item, Request):
            if rule.category != "network" or (rule.method or item.method).upper() != item.method:
                return False
            if not (rule.status_min or 0) <= item.status <= (999 if rule.status_max is None else rule.status_max):
                return False
            return self._finds(rule, item.url)
        return rule.category == "websocket" and self._finds(rule, item.url, item.data or "")

    def _finds(self, rule: Rule, *texts: str) -> bool:
        pattern = self._patterns.get(rule.id)
        return pattern is None or any(pattern.search(text[:_SEARCHED]) for text in texts)

    def propose(self, logs: Iterable[Entry[Log]], network: Iterable[Entry[Request]]) -> list[dict[str, Json]]:
        """Rules for what comes again and again and is no error; none of them is added."""
        said: Counter[str] = Counter()
        for log in logs:
            if log.item.level != "error" and not self.hides(log):
                said[log.item.message[:100]] += log.item.count
        asked: Counter[tuple[str, str]] = Counter(
            (entry.item.method, entry.item.url.partition("?")[0][:120])
            for entry in network
            if 0 < entry.item.status < 400 and not self.hides(entry)
        )
        proposals: list[dict[str, Json]] = [
            {"rule": {"category": "console", "pattern": re.escape(message)}, "count": count}
            for message, count in said.most_common(_MOST_PROPOSALS)
            if count >= _REPEATED and message and len(re.escape(message)) <= LONGEST_PATTERN
        ]
        proposals += [
            {"rule": {"category": "network", "pattern": re.escape(url), "method": method}, "count": count}
            for (method, url), count in asked.most_common(_MOST_PROPOSALS)
            if count >= _REPEATED and len(re.escape(url)) <= LONGEST_PATTERN
        ]
        return sorted(proposals, key=lambda each: -each["count"])[:_MOST_PROPOSALS]


def check_pattern(pattern: str) -> str:
    """The pattern as it is used; refused is what could take long on 1 KiB of a text that a page chooses.

    Python's engine tries every way to divide a text among repetitions. `_EFFORT` bounds how many there are, in bits,
    beside the place where a match begins: one `.*`, or a few optional letters."""
    if len(pattern) > LONGEST_PATTERN:
        raise _refuse(pattern, f"it is longer than {LONGEST_PATTERN} characters")
    # found anywhere anyway
    bare = pattern.removeprefix(".*").removesuffix(".*") if not pattern.endswith("\\.*") else pattern
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what a later Python reads in another way
            re.compile(bare)
            from re import _parser  # type: ignore[attr-defined]

            parsed = _parser.parse(bare)
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as exc:
        raise _refuse(pattern, str(exc)) from None
    anchored = len(parsed) > 0 and str(parsed[0][0]) == "AT"
    if _effort(parsed, pattern, repeated=False) > (2 * _EFFORT if anchored else _EFFORT):
        raise _refuse(pattern, "it repeats too many parts; name the text that stands between them")
    return bare


def _effort(parsed: Json, pattern: str, *, repeated: bool) -> float:
    effort = 0.0
    for kind, value in parsed:
        name = str(kind)
        if name not in _ALLOWED:
            raise _refuse(pattern, "look-around, back references and conditions are not taken")
        if repeated and name in ("BRANCH", *_REPEATS):
            raise _refuse(pattern, "a repetition or choice within a repetition can take forever")
        if name in _REPEATS:
            low, high, inner = value
            effort += math.log2(min(int(high), _SEARCHED) - min(int(low), _SEARCHED) + 1)
            effort += _effort(inner, pattern, repeated=repeated or int(high) > 1)
        elif name == "SUBPATTERN":
            effort += _effort(value[-1], pattern, repeated=repeated)
        elif name == "BRANCH":
            effort += max(_effort(branch, pattern, repeated=repeated) for branch in value[1])
    return effort


_EFFORT: Final = 10.1  # bits: one repetition over all of 1 KiB
_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT")
_ALLOWED: Final = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "SUBPATTERN", "BRANCH", *_REPEATS)


def _refuse(pattern: str, why: str) -> ToolError:
    words = f"The pattern {pattern[:80]!r} is not taken: {why}."
    return ToolError(words, code="bad_pattern", next="Call again with a plainer pattern, such as a part of the text.")
