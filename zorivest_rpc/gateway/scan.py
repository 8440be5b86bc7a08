"""Looks for instructions and hidden text in what an upstream says of its tools, and takes control characters out.

*Hold* means that the tool is not published before a person has looked at it; *warn* that the log says so."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["LONG_TEXT", "Findings", "Reading", "clean", "clean_within", "read_texts", "scan", "settle", "texts_of"]

LONG_TEXT: Final = 2_000
# No expression here may go over a text more than once or twice: a text of 256 KiB is made to have it do so.
_ENCODED_RUN: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{201,}={0,2}")
_COMMENT: Final = "<!--"
# Tags that a model reads as a voice above the user's; not `<user>` or `<path>`, which stand for a value in many texts.
# A few words are a value in `<rules>` and mark-up in `</rules>`, which closes what it opened.
_TAG: Final = re.compile(
    r"<\s?/?\s?(?:(?:(?:very|user|extra|new|secret|developer)[-_ ]?)?(?:important|critical|urgent|instructions?)"
    r"|system(?:[-_ ]?\w+)?|assistant|hidden|override|admin)(?:\s\w+\s?=[^<>]*)?\s?/?\s?>"
    r"|<\s?/\s?(?:secret|rules|commands?|orders?)\s?>|<\|[\w-]+\|>|\[/?INST\]|<</?SYS>>",
    re.IGNORECASE,
)
_PROSE: Final = ("title", "description", "$comment")
_VALUES: Final = ("default", "const", "enum", "examples")
_SENTENCE_END: Final = re.compile(r"[.!?;]\s")  # an empty line is none: an order may end with it and a colon
_BLANKS: Final = re.compile(r"\s{2,}")
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_INSTRUCTIONS: Final = frozenset(
    (
        *("call", "calling", "invoke", "invoking", "use", "using", "run", "running", "execute", "executing", "trigger"),
        *("send", "pass", "forward", "prefer", "avoid", "skip", "ignore", "replace", "disable", "bypass", "stop"),
        *("read", "query", "fetch", "ask", "consult", "submit", "delete", "switch", "follow", "set", "requires"),
        *("replaces", "required", "deprecated"),
        *("must", "always", "never", "instead"),
    )
)
_NEXT_TO: Final = 5  # words between an instruction and the name it is about
_MENTIONS: Final = re.compile(
    r"\b(?:keys?|tokens?|passwords?|credentials?|secrets?|prompts?|secretly|silently|conceal\w*|covertly"
    r"|(?:do not|don't|never|without) (?:tell|mention|show|reveal|inform)(?:ing)?)\b"
    r"|\.ssh\b|\bid_rsa\b|\.env\b",
    re.IGNORECASE,
)
# Format characters that are seen: signs of Arabic, Syriac and Kaithi that stand over numbers.
_SEEN: Final = frozenset((*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))
# Letters and marks without a shape, which no category tells: fillers, the joiner of graphemes, the blank of braille.
_BLANK: Final = frozenset((0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x2800, 0x3164, 0xFFA0))
_KEYCAPS: Final = "0123456789#*"  # ASCII that has a form as an emoji
_JOINERS: Final = ("\u200c", "\u200d")  # Persian and Indic words and composed emoji need them
_SHOWN: Final = 3  # places that a finding names


class Findings(NamedTuple):
    """Why the tool is held, and what is worth a warning; each with the place in the definition."""

    hold: tuple[str, ...] = ()
    warn: tuple[str, ...] = ()


class Reading(NamedTuple):
    """What was found in the texts of a definition, whichever tools there are: by place why it is held, and the words
    that an instruction is about. `warn` is settled."""

    places: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    warn: tuple[str, ...]


def scan(definition: Mapping[str, Any], foreign_names: Collection[str] = ()) -> Findings:
    """What is wrong with a tool, prompt or resource. `foreign_names` are the published names of tools that do not
    belong to its server: ours and those of other servers, which it has no business to steer."""
    return settle(read_texts(definition), foreign_names)


def read_texts(definition: Mapping[str, Any]) -> Reading:
    """The part of a scan that takes time."""
    places = []
    warn: dict[str, list[str]] = {}
    for path, text, prose in texts_of(definition):
        reasons, steered = _reasons_to_hold(text, prose)
        if reasons or steered:
            places.append((path, reasons, steered))
        for reason in _reasons_to_warn(text, prose):
            warn.setdefault(reason, []).append(path)
    return Reading(tuple(places), _told(warn))


def settle(reading: Reading, foreign_names: Collection[str]) -> Findings:
    """A scan, once it is known which tools belong to others."""
    hold: dict[str, list[str]] = {}
    for path, reasons, steered in reading.places:
        for reason in reasons:
            hold.setdefault(reason, []).append(path)
        name = next((word for word in steered if word in foreign_names), None)
        if name is not None:
            hold.setdefault(f"an instruction about another tool, {name}", []).append(path)
    return Findings(_told(hold), reading.warn)


def clean(text: str) -> str:
    """The text without control and invisible characters, but for line ends and tabs."""
    if text.isascii() and text.isprintable():
        return text
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = (char for place, char in enumerate(unified) if char in "\n\t" or not _is_hidden(unified, place))
    return "".join(kept)


def clean_within(value: Any) -> Any:
    """A copy of what is written in JSON, as a schema is, with the texts in it that are for reading made clean. Names,
    defaults and patterns stay: they are values, and a call has to have them as they are."""
    if isinstance(value, Mapping):
        return {key: inner if key in _VALUES else _clean_member(key, inner) for key, inner in value.items()}
    return [clean_within(inner) for inner in value] if isinstance(value, list) else value


def _clean_member(key: str, inner: Any) -> Any:
    return clean(inner) if key in _PROSE and isinstance(inner, str) else clean_within(inner)


def texts_of(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Every text in a definition with its place; whether it is prose, which may be long and name other tools."""
    stack: list[tuple[str, Any, bool]] = [
        (key, definition[key], key in ("title", "description"))
        for key in ("name", "title", "description", "uri", "uriTemplate", "arguments", "annotations")
        if key in definition
    ]
    stack += [(key, definition[key], False) for key in ("inputSchema", "outputSchema") if key in definition]
    stack.reverse()
    while stack:
        path, value, prose = stack.pop()
        if isinstance(value, str):
            yield path, value, prose
        elif isinstance(value, Mapping):
            for key in value:
                yield f"{path} (a key)", str(key), False
            stack += [(f"{path}.{key}", inner, key in _PROSE) for key, inner in reversed(list(value.items()))]
        elif isinstance(value, list):
            stack += [(f"{path}[{place}]", inner, prose) for place, inner in reversed(list(enumerate(value)))]


def _reasons_to_hold(text: str, prose: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reasons that stand in the text itself, and in prose the words that an instruction is next to."""
    reasons = []
    if not (text.isascii() and text.isprintable()):
        signs = set(text)
        if any(0xE0000 <= ord(char) <= 0xE007F for char in signs):
            reasons.append("tag characters")
        elif _has_hidden(text, signs):
            reasons.append("invisible or bidirectional control characters")
    # Full-width brackets and letters mean to a model what the plain ones do.
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    if "&" in plain:  # so does `&lt;`
        from html import unescape

        plain = unescape(plain)
    if _COMMENT in plain:
        reasons.append("an HTML comment")
    if ("<" in plain or "[" in plain) and _TAG.search(_BLANKS.sub(" ", plain)):
        reasons.append("mark-up that looks like instructions")
    return tuple(reasons), _find_steered(plain) if prose else ()


def _has_hidden(text: str, signs: set[str]) -> bool:
    """A sign that is hidden nowhere is looked at once, however often it stands in the text."""
    perhaps = {char for char in signs if char not in "\n\t\r" and _is_hidden(f"a{char}a", 1)}
    return bool(perhaps) and any(char in perhaps and _is_hidden(text, place) for place, char in enumerate(text))


def _find_steered(text: str) -> tuple[str, ...]:
    """The words that have an instruction verb next to them in their sentence, in the order of the text."""
    found: dict[str, None] = {}
    for sentence in _SENTENCE_END.split(text):
        words: list[str] = _WORD.findall(sentence)
        done = 0
        for place, word in enumerate(words):
            if word.lower() in _INSTRUCTIONS:
                end = place + _NEXT_TO + 1
                found |= dict.fromkeys(words[max(done, place - _NEXT_TO) : end])
                done = end
    return tuple(found)


def _reasons_to_warn(text: str, prose: bool) -> Iterator[str]:
    if len(text) > LONG_TEXT:
        yield f"more than {LONG_TEXT} characters"
    if _ENCODED_RUN.search(text):
        yield "a long encoded run"
    if prose and (found := _MENTIONS.search(text)):
        yield f'a mention of "{found[0].lower()}"'


def _is_hidden(text: str, place: int) -> bool:
    """Whether a character is there without being seen."""
    char = text[place]
    if " " <= char <= "~":
        return False
    code, category = ord(char), unicodedata.category(char)
    if category == "Cc":
        return True
    if 0xFE00 <= code <= 0xFE0F:  # one behind a sign chooses its form; a run, or one behind a letter, carries bytes
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        chooses = bool(before) and (not before.isascii() or before in _KEYCAPS)
        return not chooses or _selects(before) or _selects(after)
    if code in _BLANK or 0xE0100 <= code <= 0xE01EF:
        return True
    if char in _JOINERS:
        around = text[max(0, place - 1) : place] + text[place + 1 : place + 2]
        return len(around) < 2 or any(each.isascii() or unicodedata.category(each) in ("Cf", "Cc") for each in around)
    return category in ("Cf", "Co", "Cn") and code not in _SEEN


def _selects(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _told(found: Mapping[str, list[str]]) -> tuple[str, ...]:
    lines = []
    for reason, places in found.items():
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        lines.append(f"{reason} in {', '.join(places[:_SHOWN])}{more}")
    return tuple(lines)
