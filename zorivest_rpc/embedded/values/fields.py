"""Reads typed values out of a JSON body or a query and collects everything that is wrong with them.

    fields = Fields(await ask.json())
    name = fields.text("name", least=1, most=200)
    quantity = fields.decimal("quantity", above=0, places=8)
    fields.done()        # one 422 that names every wrong field

A getter with a default makes its field optional; unknown fields are ignored. Until `done()` has passed, returned values
of wrong fields are placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from ..errors import Invalid

__all__ = ["MISSING", "Fields", "parse_flag"]

D = TypeVar("D")
T = TypeVar("T")
MISSING: Any = object()
_MOST_DIGITS = 30
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def parse_flag(text: str) -> bool | None:
    """`true/false/1/0/yes/no` in any case; None for anything else."""
    return _FLAGS.get(text.strip().lower())


class Fields:
    """One set of named values and the complaints about it."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.errors: dict[str, list[str]] = {}

    def wrong(self, name: str, problem: str) -> None:
        self.errors.setdefault(name, []).append(problem)

    def done(self) -> None:
        if self.errors:
            raise Invalid(self.errors)

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        """The value as it came, for a field that may be of several kinds."""
        return self._values.get(name)

    def text(self, name: str, default: D = MISSING, *, least: int = 0, most: int = 10_000) -> str | D:
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, "")
        if not isinstance(value, str):
            return self._bad(name, "must be a string", default, "")
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            return self._bad(name, "must be valid text", default, "")
        if not least <= len(value.strip() if least else value) or len(value) > most:
            return self._bad(name, f"must have {least} to {most} characters", default, "")
        return value

    def choice(self, name: str, allowed: Iterable[str], default: D = MISSING) -> str | D:
        """One of `allowed`, compared without case and returned as spelled there."""
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, "")
        known = {item.lower(): item for item in allowed}
        if not isinstance(value, str) or value.strip().lower() not in known:
            return self._bad(name, f"must be one of {', '.join(known.values())}", default, "")
        return known[value.strip().lower()]

    def flag(self, name: str, default: D = MISSING) -> bool | D:
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, False)
        parsed = value if isinstance(value, bool) else parse_flag(str(value))
        return self._bad(name, "must be true or false", default, False) if parsed is None else parsed

    def integer(self, name: str, default: D = MISSING, *, least: int | None = None, most: int | None = None) -> int | D:
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, 0)
        try:
            if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() > _MOST_DIGITS):
                raise ValueError  # before `int` writes out a billion zeros
            if isinstance(value, bool) or (isinstance(value, (float, Decimal)) and value != int(value)):
                raise ValueError
            number = int(value)
        except (ValueError, TypeError, OverflowError):
            return self._bad(name, "must be a whole number", default, 0)
        if (least is not None and number < least) or (most is not None and number > most):
            return self._bad(name, _range(least, most), default, 0)
        return number

    def decimal(
        self,
        name: str,
        default: D = MISSING,
        *,
        above: int | None = None,
        least: int | None = None,
        most: Decimal | int = 10**10,
        places: int = 6,
    ) -> Decimal | D:
        """An exact number with at most `places` decimal places; numbers and numeric strings are taken."""
        value = self._take(name, default)
        zero = Decimal(0)
        if value is MISSING or value is default:
            return self._or(default, zero)
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
                raise ValueError
            number = Decimal(str(value).strip())
        except (ValueError, InvalidOperation):
            return self._bad(name, "must be a number", default, zero)
        if not number.is_finite():
            return self._bad(name, "must be a finite number", default, zero)
        if above is not None and number <= above:
            return self._bad(name, f"must be greater than {above}", default, zero)
        if (least is not None and number < least) or number.copy_abs() > most:
            return self._bad(name, _range(least, most), default, zero)
        if number.quantize(Decimal(1).scaleb(-places)) != number:
            return self._bad(name, f"must have at most {places} decimal places", default, zero)
        return number

    def moment(self, name: str, default: D = MISSING) -> datetime | D:
        """ISO 8601; without an offset it is UTC."""
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, datetime.now(UTC))
        try:
            parsed = datetime.fromisoformat(value)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            return self._bad(name, "must be an ISO 8601 date and time", default, datetime.now(UTC))

    def day(self, name: str, default: D = MISSING) -> date | D:
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, datetime.now(UTC).date())
        try:
            return date.fromisoformat(value)
        except (ValueError, TypeError):
            return self._bad(name, "must be a date, YYYY-MM-DD", default, datetime.now(UTC).date())

    def texts(
        self, name: str, default: D = MISSING, *, least: int = 0, most: int = 100, length: int = 200
    ) -> list[str] | D:
        """A list of strings."""
        value = self._take(name, default)
        if value is MISSING or value is default:
            return self._or(default, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and len(item) <= length for item in value):
            return self._bad(name, f"must be a list of strings of at most {length} characters", default, [])
        if not least <= len(value) <= most:
            return self._bad(name, f"must have {least} to {most} items", default, [])
        return value

    def _take(self, name: str, default: Any) -> Any:
        """null counts as absent."""
        value = self._values.get(name)
        if value is not None:
            return value
        if default is MISSING:
            self.wrong(name, "is required")
        return default

    @staticmethod
    def _or(default: D, placeholder: T) -> T | D:
        return placeholder if default is MISSING else default

    def _bad(self, name: str, problem: str, default: D, placeholder: T) -> T | D:
        self.wrong(name, problem)
        return self._or(default, placeholder)


def _range(least: Any, most: Any) -> str:
    if least is None:
        return f"must be at most {most}"
    return f"must be at least {least}" if most is None else f"must be between {least} and {most}"
