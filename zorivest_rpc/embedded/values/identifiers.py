"""Check digits of CUSIP, ISIN, SEDOL and FIGI, and the CUSIP inside a US or Canadian ISIN."""

from __future__ import annotations

import enum
import re

__all__ = ["IdentifierType", "classify", "cusip_to_isin", "is_valid", "isin_to_cusip", "normalise", "problem"]


class IdentifierType(enum.StrEnum):
    """The identifier schemes we can check."""

    CUSIP = "cusip"
    ISIN = "isin"
    SEDOL = "sedol"
    FIGI = "figi"


_SHAPES = {
    IdentifierType.CUSIP: re.compile(r"[0-9A-Z*@#]{8}[0-9]"),
    IdentifierType.ISIN: re.compile(r"[A-Z]{2}[0-9A-Z]{9}[0-9]"),
    IdentifierType.SEDOL: re.compile(r"[0-9B-DF-HJ-NP-TV-Z]{6}[0-9]"),
    IdentifierType.FIGI: re.compile(r"[B-DF-HJ-NP-TV-Z]{2}G[0-9B-DF-HJ-NP-TV-Z]{8}[0-9]"),
}
_LENGTHS = {
    IdentifierType.CUSIP: "9 letters and digits",
    IdentifierType.ISIN: "2 letters, 9 letters or digits and a digit",
    IdentifierType.SEDOL: "7 digits and consonants",
    IdentifierType.FIGI: "12 digits and consonants with G in third place",
}
_CUSIP_CHARS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ*@#"
_SEDOL_WEIGHTS = (1, 3, 1, 7, 3, 9)
_FIGI_EXCLUDED = frozenset({"BS", "BM", "GG", "GB", "GH", "KY", "VG"})  # would read as an ISIN's country
_CUSIP_COUNTRIES = frozenset({"US", "CA"})


def normalise(value: str) -> str:
    """Upper case without spaces and hyphens."""
    return re.sub(r"[\s-]", "", value).upper()


def problem(kind: IdentifierType | str, value: str) -> str | None:
    """What is wrong with an identifier, or None for a good one."""
    kind, text = IdentifierType(kind), normalise(value)
    if not _SHAPES[kind].fullmatch(text):
        return f"a {kind.value.upper()} has {_LENGTHS[kind]}"
    if kind is IdentifierType.FIGI and text[:2] in _FIGI_EXCLUDED:
        return f"a FIGI does not begin with {text[:2]}"
    expected = _CHECKS[kind](text[:-1])
    return None if int(text[-1]) == expected else f"the check digit is {text[-1]}, but should be {expected}"


def is_valid(kind: IdentifierType | str, value: str) -> bool:
    return problem(kind, value) is None


def classify(value: str) -> IdentifierType | None:
    """The scheme that a bare identifier belongs to by shape and check digit; FIGI before ISIN, which it resembles."""
    for kind in (IdentifierType.FIGI, IdentifierType.ISIN, IdentifierType.CUSIP, IdentifierType.SEDOL):
        if is_valid(kind, value):
            return kind
    return None


def isin_to_cusip(isin: str) -> str | None:
    """The CUSIP inside a valid US or Canadian ISIN."""
    text = normalise(isin)
    if not is_valid(IdentifierType.ISIN, text) or text[:2] not in _CUSIP_COUNTRIES:
        return None
    cusip = text[2:11]
    return cusip if is_valid(IdentifierType.CUSIP, cusip) else None


def cusip_to_isin(cusip: str, country: str = "US") -> str | None:
    """The ISIN of a valid CUSIP; None for private CUSIPs with signs an ISIN cannot hold."""
    text, country = normalise(cusip), country.upper()
    if country not in _CUSIP_COUNTRIES or not is_valid(IdentifierType.CUSIP, text) or not text.isalnum():
        return None
    return f"{country}{text}{_isin_check(country + text)}"


def _double_add_double(values: list[int]) -> int:
    """Sum of digits, every second value doubled (0, 2, 4 … single), as CUSIP and FIGI do it."""
    total = 0
    for place, value in enumerate(values):
        doubled = value * 2 if place % 2 else value
        total += doubled // 10 + doubled % 10
    return -total % 10


def _cusip_check(body: str) -> int:
    return _double_add_double([_CUSIP_CHARS.index(char) for char in body])


def _figi_check(body: str) -> int:
    return _double_add_double([int(char, 36) for char in body])


def _isin_check(body: str) -> int:
    """Luhn over the digits of the base-36 values, from the right."""
    digits = [int(digit) for char in body for digit in str(int(char, 36))]
    total = 0
    for place, digit in enumerate(reversed(digits)):
        doubled = digit * 2 if place % 2 == 0 else digit
        total += doubled // 10 + doubled % 10
    return -total % 10


def _sedol_check(body: str) -> int:
    return -sum(weight * int(char, 36) for weight, char in zip(_SEDOL_WEIGHTS, body, strict=True)) % 10


_CHECKS = {
    IdentifierType.CUSIP: _cusip_check,
    IdentifierType.ISIN: _isin_check,
    IdentifierType.SEDOL: _sedol_check,
    IdentifierType.FIGI: _figi_check,
}
