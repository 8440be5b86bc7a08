"""Numbers, dates, currencies and texts as brokers and banks write them, read into exact values.

Each reader takes one cell and raises `BadValue` with a sentence about that cell; none of them guesses silently where
two readings are possible: the choice of decimal mark and day order is made for a whole file and passed in.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from zoneinfo import ZoneInfo

from zorivest_rpc.embedded.imports.drafts import Effect
from zorivest_rpc.embedded.values.kinds import Side

__all__ = [
    "BadValue",
    "currency_code",
    "decimal_mark",
    "is_day_first",
    "parse_date",
    "parse_decimal",
    "parse_effect",
    "parse_moment",
    "parse_side",
    "plain_text",
    "zone",
]

LARGEST = Decimal(10) ** 15
MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january",
            "feb february",
            "mar march",
            "apr april",
            "may",
            "jun june",
            "jul july",
            "aug august",
            "sep sept september",
            "oct october",
            "nov november",
            "dec december",
        ),
        start=1,
    )
    for name in names.split()
}
OFFSETS = {
    "UTC": 0,
    "GMT": 0,
    "Z": 0,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "BST": 1,
    "CET": 1,
    "CEST": 2,
    "JST": 9,
    "HKT": 8,
    "SGT": 8,
}
ZONES = {
    "ET": "America/New_York",
    "CT": "America/Chicago",
    "MT": "America/Denver",
    "PT": "America/Los_Angeles",
}
CURRENCY_SIGNS = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "C$": "CAD", "A$": "AUD", "₹": "INR"}

_FORMULA_START = ("=", "+", "-", "@", "|", "%", "\t", "\r")
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+")
_SIMPLE = re.compile(r"-?\d{1,15}(?:\.\d{1,20})?", re.ASCII)
_GROUPED = re.compile(r"\d{1,3}(?:G\d{2,3})*G\d{3}")
_SIGN_OR_CODE = re.compile(r"(?:US\$|C\$|A\$|[$€£¥₹]|\b[A-Za-z]{3}\b)")
_EXPONENT = re.compile(r"([\d.]+)[eE]([+-]?\d{1,2})")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]")
_MINUS = str.maketrans({"−": "-", "–": "-", "‒": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " "})


class BadValue(ValueError):
    """A cell that does not say what its column should."""


def plain_text(text: str, limit: int = 500) -> str:
    """`text` as data: one line, no control characters, and an apostrophe before what a spreadsheet would compute."""
    if not (text.isascii() and text.isprintable()) or "  " in text or text[:1] == " " or text[-1:] == " ":
        text = " ".join(_CONTROL.sub(" ", text).split())
    if text.startswith(_FORMULA_START) and not _reads_as_number(text):
        text = "'" + text
    return text[:limit]


def _reads_as_number(text: str) -> bool:
    return re.fullmatch(r"[+-][\d.,' ]*\d[\d.,]*%?", text) is not None


def decimal_mark(cells: Iterable[str]) -> str | None:
    """The decimal mark that these number cells prove, or None where they prove none or both."""
    seen = {mark for cell in cells if (mark := _proven_mark(cell))}
    return seen.pop() if len(seen) == 1 else None


def _proven_mark(cell: str) -> str | None:
    digits = re.sub(r"[^\d.,]", "", cell)
    dot, comma = digits.rfind("."), digits.rfind(",")
    if dot >= 0 and comma >= 0:
        return "." if dot > comma else ","
    last = max(dot, comma)
    if last < 0:
        return None
    mark = digits[last]
    if digits.count(mark) > 1:
        return "," if mark == "." else "."
    tail = len(digits) - last - 1
    return None if tail == 3 and 1 <= last <= 3 and digits[0] != "0" else mark


def parse_decimal(cell: str, mark: str | None = None) -> Decimal:
    """A number in any of the usual dresses: `1,234.56`, `1.234,56`, `(123.45)`, `123.45-`, `$-1 234.5`, `USD 12`."""
    if mark != "," and _SIMPLE.fullmatch(cell):
        return Decimal(cell) or Decimal(0)
    text = cell.translate(_MINUS).strip()
    if len(text) > 64:
        raise BadValue("is too long for a number")
    negative = False
    if text.startswith("(") and text.endswith(")"):
        negative, text = True, text[1:-1]
    text = _SIGN_OR_CODE.sub("", text).strip()
    if text.startswith("(") and text.endswith(")"):
        negative, text = True, text[1:-1]
    if text[:1] in "+-" and text[1:]:
        negative, text = negative ^ (text[0] == "-"), text[1:].strip()
    elif text[-1:] in "+-" and text[:-1]:
        negative, text = negative ^ (text[-1] == "-"), text[:-1].strip()
    elif text[-2:].upper() in ("CR", "DR"):
        negative, text = negative ^ (text[-2:].upper() == "DR"), text[:-2].strip()
    exponent = 0
    if scientific := _EXPONENT.fullmatch(text):
        text, exponent = scientific[1], int(scientific[2])
    digits = _remove_grouping(text, mark or _proven_mark(text) or ".")
    if digits is None:
        raise BadValue(f"{plain_text(cell, 40)!r} is not a number")
    try:
        value = Decimal(digits).scaleb(exponent)
    except InvalidOperation:
        raise BadValue(f"{plain_text(cell, 40)!r} is not a number") from None
    if value >= LARGEST:
        raise BadValue(f"{plain_text(cell, 40)!r} is too large")
    return -value if negative and value else value


def _remove_grouping(text: str, mark: str) -> str | None:
    """Plain digits with a dot, or None: grouping marks only between groups, and only one kind of them."""
    if not text.isascii():
        return None
    if text.isdigit():
        return text
    whole, _, fraction = text.rpartition(mark) if mark in text else (text, "", "")
    if mark in whole:
        return None
    if fraction and not fraction.isdigit():
        return None
    groups = {char for char in whole if not char.isdigit()}
    if groups:
        (group, *more) = groups
        if more or group not in ",.' " or not _GROUPED.fullmatch(whole.replace(group, "G")):
            return None
        whole = whole.replace(group, "")
    plain = f"{whole}.{fraction}" if fraction else whole
    return plain if _NUMBER.fullmatch(plain) else None


def currency_code(cell: str, default: str) -> str:
    """A three-letter code from a code or a sign."""
    text = cell.strip()
    if not text:
        return default
    if text in CURRENCY_SIGNS:
        return CURRENCY_SIGNS[text]
    if len(text) == 3 and text.isascii() and text.isalpha():
        return text.upper()
    raise BadValue(f"{plain_text(cell, 40)!r} is not a currency code")


def zone(name: str) -> dt.tzinfo:
    """The time zone of that name; `BadValue` for one that does not exist."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise BadValue(f"{plain_text(name, 60)!r} is not a time zone") from None


_YEAR_FIRST = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})")
_PACKED = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)")
_PARTED = re.compile(r"(\d{1,2})\s*[-/.]\s*(\d{1,2})\s*(?:[-/.]\s*|(?=[']))'?\s*(\d{4}|\d{2})")
_DAY_MONTH = re.compile(r"(\d{1,2})[ /-]?([A-Za-z]{3,9})\.?[ /,-]*'?(\d{4}|\d{2})")
_MONTH_DAY = re.compile(r"([A-Za-z]{3,9})\.? +(\d{1,2})(?:st|nd|rd|th)?,? +'?(\d{4}|\d{2})")
_CLOCK = re.compile(
    r"(?P<h>\d{1,2}):?(?P<m>\d{2})(?::?(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>Z|[A-Za-z]{2,4}|(?:(?:UTC|GMT)?\s*[+-]\d{2}:?\d{2}))?(?:\s*\([A-Za-z ]+\))?"
)


def is_day_first(cells: Iterable[str]) -> bool | None:
    """Whether `a/b/year` means day a: True or False where a value above 12 proves it, None where nothing does.

    Both proven at once is None as well; the row that does not fit the chosen order then fails by itself."""
    first = second = False
    for cell in cells:
        if (match := _PARTED.match(cell.strip())) and not _YEAR_FIRST.match(cell.strip()):
            first |= int(match[1]) > 12
            second |= int(match[2]) > 12
    return first if first != second else None


def parse_date(cell: str, day_first: bool = False) -> dt.date:
    """A calendar day without a time."""
    text = cell.strip()
    day, rest = _split_date(text, day_first)
    if rest.strip(" T;,"):
        raise BadValue(f"{plain_text(cell, 40)!r} is not a date")
    return day


def _split_date(text: str, day_first: bool) -> tuple[dt.date, str]:
    if len(text) > 64 or not text.isascii():
        raise BadValue(f"{plain_text(text, 40)!r} is not a date")
    if (match := _YEAR_FIRST.match(text)) or (match := _PACKED.match(text)):
        year, month, day = int(match[1]), int(match[2]), int(match[3])
    elif match := _PARTED.match(text):
        one, two = int(match[1]), int(match[2])
        month, day = (two, one) if day_first or "." in match[0] else (one, two)
        year = _full_year(match[3])
    elif match := _DAY_MONTH.match(text):
        year, month, day = _full_year(match[3]), MONTHS.get(match[2].lower(), 0), int(match[1])
    elif match := _MONTH_DAY.match(text):
        year, month, day = _full_year(match[3]), MONTHS.get(match[1].lower(), 0), int(match[2])
    else:
        raise BadValue(f"{plain_text(text, 40)!r} is not a date")
    try:
        found = dt.date(year, month, day)
    except ValueError:
        raise BadValue(f"{plain_text(text, 40)!r} is not a day of the calendar") from None
    if not 1900 <= year <= 2200:
        raise BadValue(f"{plain_text(text, 40)!r} is outside the years 1900 to 2200")
    return found, text[match.end() :]


def _full_year(text: str) -> int:
    """Two digits mean 1970 to 2069."""
    year = int(text)
    return year if len(text) == 4 else year + (1900 if year >= 70 else 2000)


def parse_moment(cell: str, local: dt.tzinfo, day_first: bool = False) -> tuple[dt.datetime, bool]:
    """A moment in UTC and whether a time of day was given.

    A day alone becomes noon in the file's zone, so that it stays the same day in UTC and in most zones."""
    day, rest = _split_date(cell.strip(), day_first)
    rest = rest.lstrip("T;,: ").strip()
    if not rest:
        return dt.datetime.combine(day, dt.time(12), local).astimezone(dt.UTC), False
    match = _CLOCK.fullmatch(rest)
    if not match:
        raise BadValue(f"{plain_text(cell, 40)!r} is not a date and time")
    hour = int(match["h"])
    if half := match["half"]:
        if not 1 <= hour <= 12:
            raise BadValue(f"{plain_text(cell, 40)!r} is not a date and time")
        hour = hour % 12 + (12 if half[0] in "Pp" else 0)
    micro = int((match["f"] or "0").ljust(6, "0")[:6])
    try:
        clock = dt.time(hour, int(match["m"]), int(match["s"] or 0), micro)
    except ValueError:
        raise BadValue(f"{plain_text(cell, 40)!r} is not a time of day") from None
    where = _stated_zone(match["zone"]) if match["zone"] else local
    return dt.datetime.combine(day, clock, where).astimezone(dt.UTC), True


def _stated_zone(text: str) -> dt.tzinfo:
    name = text.upper().replace(" ", "")
    if name in OFFSETS:
        return dt.timezone(dt.timedelta(hours=OFFSETS[name]))
    if name in ZONES:
        return ZoneInfo(ZONES[name])
    if match := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d\d):?(\d\d)", name):
        hours, minutes = int(match[2]), int(match[3])
        if hours < 15 and minutes < 60:
            offset = dt.timedelta(hours=hours, minutes=minutes)
            return dt.timezone(-offset if match[1] == "-" else offset)
    raise BadValue(f"{plain_text(text, 20)!r} is not a time zone we know")


_BUYS = frozenset(
    {
        *("b", "buy", "bot", "bought", "bto", "btc", "long", "cover", "purchase", "purchased", "youbought"),
        *("buytoopen", "buytoclose", "buytocover", "buyopen", "buyclose", "reinvestshares", "reinvestment"),
        *("boughttoopen", "boughttocover", "boughttoclose"),
    }
)
_SELLS = frozenset(
    {
        *("s", "ss", "sell", "sld", "sold", "sto", "stc", "short", "sshrt", "sale", "yousold"),
        *("selltoopen", "selltoclose", "sellshort", "shortsell", "shortsale", "sellopen", "sellclose"),
        *("soldshort", "soldtoopen", "soldtoclose"),
    }
)


_OPENS = frozenset(
    {
        *("bto", "sto", "buytoopen", "selltoopen", "buyopen", "sellopen", "boughttoopen", "soldtoopen"),
        *("ss", "short", "sshrt", "sellshort", "shortsell", "shortsale", "soldshort", "toopen", "open", "o", "opening"),
    }
)
_CLOSES = frozenset(
    {
        *("btc", "stc", "cover", "buytoclose", "selltoclose", "buytocover", "buyclose", "sellclose"),
        *("boughttocover", "boughttoclose", "soldtoclose", "toclose", "close", "c", "closing"),
    }
)


def parse_effect(cell: str) -> Effect | None:
    """Whether a word says that a fill opened or closed a position; Buy and Sell alone do not."""
    word = re.sub(r"[^a-z]", "", cell.lower())
    if word in _OPENS:
        return Effect.OPEN
    return Effect.CLOSE if word in _CLOSES else None


def parse_side(cell: str) -> Side | None:
    """Bought or sold, or None for any other word."""
    word = re.sub(r"[^a-z]", "", cell.lower())
    if word in _BUYS:
        return Side.BOT
    if word in _SELLS:
        return Side.SLD
    return None
