"""Takes secrets out of whatever is about to be written to a log."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["redact", "redact_text"]

HIDDEN = "[redacted]"

# What a telling name ends in, whatever stands before it: `smtp_password`, `APCA-API-SECRET-KEY`.
_TELLING = (
    r"(?:api[_-]?key|access[_-]?key|private[_-]?key|raw[_-]?key|master[_-]?key|secret|token|passw(?:or)?d|pwd|passphrase"
    r"|credentials?)(?:[_-](?:id|key))?"
)
_NAME = re.compile(rf"(?i).*(?:{_TELLING}|authorization|cookie)|(?:wrapped[_-])?[dk]ek")
_VALUE = r"(?:\"[^\"]*\"?|'[^']*'?|(?!\[redacted\])[^\s\"'&,;}]+)"

# The order matters: whole credentials before the fragments that other patterns would leave of them.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"zrv_sk_[A-Za-z0-9_\-]+"), f"zrv_sk_{HIDDEN}"),
    (re.compile(r"\b(?:tok|ctk|apt)_[A-Za-z0-9_\-]{8,}"), HIDDEN),
    (re.compile(r"ENC:[A-Za-z0-9_\-=+/]+"), f"ENC:{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]+"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"(?i)(\b(?:proxy-)?authorization[\"']?\s*[:=]\s*)(?![\"']?(?:bearer|basic)\b)(?:\"[^\"\n]*\"?|[^\n\"][^\n]*)"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)(\b(?:set-)?cookie\s*[:=]\s*)[^\n\"]+"), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"), HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bgAAAAA[A-Za-z0-9_\-=]{20,}"), HIDDEN),  # a Fernet token: a wrapped key
    (re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.\-]{0,20}://)[^\s/@]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)(passphrase\s*[:=]\s*)(?![\"'])[^\n\"'&,;}]+"), rf"\1{HIDDEN}"),  # it may have spaces
    (re.compile(rf"(?i)((?:{_TELLING}|cookie|\b[dk]ek)[\"']?\s*[:=]\s*){_VALUE}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)([?&](?:key|sig|signature|auth|appid)=)[^\s\"'&]+"), rf"\1{HIDDEN}"),
    (re.compile(r"\b\d{3}-\d{2}-\d{4}\b"), HIDDEN),
    (re.compile(r"\b(?:\d[ \-]?){12,18}\d\b"), HIDDEN),
)

_MAX_DEPTH = 8
_LONGEST = 16_384  # of one text; what is longer belongs into a file of its own


def redact_text(text: str) -> str:
    """The text without anything that looks like a credential, a card or a social security number."""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " [cut]"
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def redact(value: Any, depth: int = 0) -> Any:
    """The same for nested data; a value under a telling name goes whatever it looks like."""
    if depth > _MAX_DEPTH:
        return "[too deep]"
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {
            redact_text(str(name)): HIDDEN if _telling(str(name)) else redact(item, depth + 1)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        return [redact(item, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return redact_text(str(value))


def _telling(name: str) -> bool:
    return _NAME.fullmatch(name.strip()) is not None
