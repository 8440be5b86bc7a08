"""Whether a secret stands in a command or an address: told by the names around it, by known forms and by its looks.

Rather one harmless entry too many is taken for one that holds a secret than one secret for harmless."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import parse_qsl, urlsplit

__all__ = ["command_holds_secret", "url_holds_secret"]

_WHOLE: Final = r"(?<![A-Za-z])(?:sig|pat|pass|pwd)(?![A-Za-z])"  # short words that are parts of harmless ones
_SECRET_NAME: Final = re.compile(
    rf"key|token|secret|passw|passphrase|auth|credential|signature|jwt|cookie|{_WHOLE}", re.IGNORECASE
)
_SECRET_VALUE: Final = re.compile(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}|\bgh[opsru]_\w{8,}|github_pat_|\bxox[abprs]-|\bAKIA[0-9A-Z]{8,}|\bglpat-"
    r"|\beyJ[\w-]{8,}\.|\bzrv_sk_|\bAIza[\w-]{10,}|(?i:bearer\s)\S|://[^/\s:@]*:[^/\s@]+@"
)
# `X-Api-Key:value`, `{"exaApiKey": "value"}`; not `keycloak:24` nor `/home/me/keys:/keys`, an image and a volume.
_NAMED_VALUE: Final = re.compile(
    rf"(?:key|token|secret|passw(?:or)?d|passphrase|authorization|credentials?|signature|jwt|cookie|{_WHOLE})"
    r"[\"']?\s*:\s*[\"']?[^\s\"'/.~\\]",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PATH: Final = re.compile(r"\.{0,2}/|~|[A-Za-z]:[\\/]")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|@[0-9a-f]{40}\b")  # which release of an image or a repository it is
# What is not for reading: a run of letters and digits, or a UUID.
_RANDOM: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_RUN: Final = re.compile(r"[A-Za-z0-9_-]{20,}")
_SWITCH: Final = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])")
_SHORT_KEYS: Final = frozenset(("code", "k", "sas", "sid", "t"))  # parameters that are one by custom


def command_holds_secret(command: Sequence[str]) -> bool:
    """Whether a word of it is a secret, or has one in it: a header, an assignment, JSON, a line for a shell."""
    if any(_word_holds_secret(word) for word in command):
        return True
    words = [part.strip("\"'") for word in command for part in word.split()]
    return any(_is_named(word, following) for word, following in zip(words, (*words[1:], ""), strict=True))


def url_holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True  # what cannot be read cannot be known to be harmless
    rest = f"{parts.path} {parts.query} {parts.fragment}"
    if "@" in parts.netloc or _SECRET_VALUE.search(url) or _is_random(rest) or _SECRET_NAME.search(parts.fragment):
        return True
    names = [key for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return any(_SECRET_NAME.search(key) or key.lower() in _SHORT_KEYS for key in names)


def _word_holds_secret(word: str) -> bool:
    if _SECRET_VALUE.search(word) or any(url_holds_secret(url) for url in _ADDRESS.findall(word)):
        return True
    rest = _ADDRESS.sub(" ", word)
    return bool(_NAMED_VALUE.search(rest)) or any(_is_random(part) for part in _not_paths(rest))


def _not_paths(word: str) -> Iterator[str]:
    return (part for part in word.split() if not _PATH.match(part))


def _is_named(word: str, following: str) -> bool:
    """`--token value`, `--token=value`, `API_KEY=value`."""
    flag, equals, _ = word.partition("=")
    if not _SECRET_NAME.search(flag) or not (flag.startswith("-") or equals):
        return False
    return bool(equals) or bool(following and not following.startswith("-"))


def _is_random(text: str) -> bool:
    plain = _DIGEST.sub(" ", text)
    if _RANDOM.search(plain):
        return True
    # Base64 for URLs: between words of a name, letters and digits seldom take turns.
    return any(len(_SWITCH.findall(run)) * 4 >= len(run) for run in _RUN.findall(plain))
