"""The settings: which keys exist, what they may hold, and which value is in force.

A value is resolved as the user's override, else the installation's default (`app_defaults`), else the built-in one. A
write is checked as a whole and applied as a whole: one bad key and nothing changes. On the wire of `/settings` values
are strings; typed values are read with `Settings.value`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import available_timezones

from sqlalchemy import Connection, select

from .database import audit
from .database.engine import Database
from .database.schema.journal import app_defaults, settings
from .disk.logs import FEATURES, LEVELS
from .errors import Invalid, NotFound
from .values.fields import parse_flag
from .values.futures import SETTING as FUTURE_MULTIPLIERS
from .values.futures import parse_multipliers

__all__ = ["REGISTRY", "JournalSettings", "Spec", "read_value", "spec_of"]

_LONGEST = 1024
_MOST_PANELS = 200


@dataclass(frozen=True)
class Spec:
    """One key: its type, its built-in value, and what else a value must satisfy (returns the problem or None)."""

    type: str
    default: str
    check: Callable[[Any], str | None] = lambda value: None
    ignored: bool = False

    def parse(self, text: str) -> Any:
        """ValueError with what is wrong."""
        if self.type == "bool":
            flag = parse_flag(text)
            if flag is None:
                raise ValueError("must be true or false")
            return flag
        if self.type == "int":
            if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
                raise ValueError("must be a whole number")
            return int(text)
        if self.type == "float":
            try:
                number = Decimal(text.strip())
            except InvalidOperation:
                raise ValueError("must be a number") from None
            if not number.is_finite():
                raise ValueError("must be a finite number")
            return float(number)
        return text


def _one_of(*allowed: str) -> Callable[[Any], str | None]:
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def _between(least: float, most: float) -> Callable[[Any], str | None]:
    return lambda value: None if least <= value <= most else f"must be between {least:g} and {most:g}"


def _at_most(length: int) -> Callable[[Any], str | None]:
    return lambda value: None if len(value) <= length else f"must have at most {length} characters"


def _zone(value: Any) -> str | None:
    return None if value == "UTC" or value in available_timezones() else "must be an IANA time zone"


def _currency(value: Any) -> str | None:
    return None if re.fullmatch(r"[A-Z]{3,5}", value) else "must be the code of a currency, such as EUR"


def _multipliers(value: Any) -> str | None:
    try:
        parse_multipliers(value)
    except ValueError as exc:
        return str(exc)
    return None


def _choice(default: str, *allowed: str) -> Spec:
    return Spec("str", default, _one_of(*allowed))


_ON, _OFF = Spec("bool", "true"), Spec("bool", "false")
_AMOUNT, _SHARE = Spec("float", "0", _between(0, 1e12)), Spec("float", "0", _between(0, 1))

REGISTRY: dict[str, Spec] = {
    **{f"dialog.confirm_{name}": _ON for name in ("delete", "restore", "clear_data", "export", "import")},
    **{f"logging.{feature}.level": _choice("INFO", *LEVELS) for feature in FEATURES},
    "logging.rotation_mb": Spec("int", "10", _between(1, 500)),
    "logging.backup_count": Spec("int", "5", _between(1, 50)),
    "display.hide_dollars": _OFF,
    "display.hide_percentages": _OFF,
    "display.percent_mode": _choice("daily", "daily", "total"),
    "backup.auto_interval_seconds": Spec("int", "300", _between(60, 86_400)),
    "backup.auto_change_threshold": Spec("int", "100", _between(1, 10_000)),
    "backup.max_age_days": Spec("int", "90", _between(1, 3650)),
    "backup.keep_count": Spec("int", "14", _between(1, 1000)),
    "ui.theme": _choice("dark", "light", "dark"),
    "ui.activePage": Spec("str", "/", _at_most(256)),
    "ui.sidebar.width": Spec("int", "280", _between(150, 600)),
    **{f"notification.{kind}.enabled": _ON for kind in ("success", "info", "warning", "confirmation")},
    "notification.error.enabled": Spec("bool", "true", ignored=True),  # errors are always shown
    "scheduling.default_timezone": Spec("str", "UTC", _zone),
    "import.timezone": Spec("str", "America/New_York", _zone),
    "journal.timezone": Spec("str", "", lambda value: None if value == "" else _zone(value)),
    "journal.currency": Spec("str", "USD", _currency),
    FUTURE_MULTIPLIERS: Spec("str", "", _multipliers),
    "accounts.auto_create": _ON,
    "market.offline": _OFF,
    # the tax profile of the current year, for callers that have no other way to set it
    "tax.filing_status": _choice("SINGLE", "SINGLE", "MARRIED_JOINT", "MARRIED_SEPARATE", "HEAD_OF_HOUSEHOLD"),
    "tax.federal_bracket": _SHARE,
    "tax.state_tax_rate": _SHARE,
    "tax.state": Spec("str", "", lambda value: None if re.fullmatch(r"|[A-Z]{2}", value) else "must be two letters"),
    "tax.prior_year_tax": _AMOUNT,
    "tax.prior_year_agi": _AMOUNT,
    "tax.agi_estimate": _AMOUNT,
    "tax.withholding": _AMOUNT,
    "tax.capital_loss_carryforward": _AMOUNT,
    "tax.capital_loss_carryforward_lt": _AMOUNT,
    "tax.wash_sale_method": _choice("CONSERVATIVE", "CONSERVATIVE", "AGGRESSIVE"),
    "tax.default_cost_basis": _choice(
        "FIFO",
        *("FIFO", "LIFO", "HIFO", "SPEC_ID", "AVG_COST", "MAX_LT_GAIN", "MAX_LT_LOSS", "MAX_ST_GAIN", "MAX_ST_LOSS"),
    ),
    "tax.include_drip_wash_detection": _ON,
    "tax.include_spousal_accounts": _ON,
    "tax.section_475_elected": _OFF,
    "tax.section_1256_eligible": _ON,
}

_PANEL = re.compile(r"ui\.panel\.[A-Za-z0-9_-]{1,64}\.collapsed")

_DANGEROUS = (
    (re.compile(r"\.\.[/\\]"), "must not climb directories"),
    (re.compile(r"(?i)['\"]\s*;\s*(?:drop|alter|create|delete|insert|update|truncate)\b"), "looks like SQL"),
    (re.compile(r"(?i)\bor\s+1\s*=\s*1\b|\bunion\s+(?:all\s+)?select\b"), "looks like SQL"),
    (re.compile(r"(?i)<\s*/?\s*script|javascript\s*:|\bon[a-z]{3,20}\s*="), "looks like a script"),
)


def spec_of(key: str) -> Spec | None:
    """The specification of a key; one segment of `ui.panel.*.collapsed` is free."""
    return REGISTRY.get(key) or (_OFF if _PANEL.fullmatch(key) else None)


def _text(value: Any) -> str:
    """A value of a request as the string that is stored."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str, Decimal)):
        return str(value)
    raise ValueError("must be a string, a number or true/false")


def _check(key: str, value: Any) -> tuple[Spec, str]:
    """Known, then typed, then in range, then harmless; the first failing stage gives the reason."""
    spec = spec_of(key)
    if spec is None:
        raise ValueError("is not a known setting")
    text = _text(value)
    parsed = spec.parse(text)
    if len(text) > _LONGEST:
        raise ValueError(f"must have at most {_LONGEST} characters")
    if problem := spec.check(parsed):
        raise ValueError(problem)
    for pattern, problem in _DANGEROUS:
        if pattern.search(text):
            raise ValueError(problem)
    if any(ord(char) < 32 or "\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("must not hold control characters")
    if spec.type == "bool":
        text = "true" if parsed else "false"
    elif spec.type == "int":
        text = str(parsed)
    return spec, text


class JournalSettings:
    """The settings of one open database, cached until the next write."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._cache: dict[str, tuple[str, str]] | None = None
        self._writes = 0  # a read that began before a write must not fill the cache after it

    async def read_all(self) -> dict[str, tuple[str, str]]:
        """Every known key with its value in force, as a string, and the source: user, default or hardcoded."""
        if self._cache is not None:
            return self._cache
        writes = self._writes
        found = await self._db.read(_resolve)
        if writes == self._writes:
            self._cache = found
        return found

    async def value(self, key: str) -> Any:
        """The typed value in force; 404 for a key that does not exist."""
        spec = spec_of(key)
        if spec is None:
            raise NotFound("setting", key)
        text, _ = (await self.read_all()).get(key, (spec.default, "hardcoded"))
        return spec.parse(text)

    async def update(self, changes: Mapping[str, Any], actor: str) -> int:
        """Write all or nothing; 422 lists every bad key with its reason."""
        if not changes:
            raise Invalid({"settings": ["must name at least one setting"]})
        errors: dict[str, list[str]] = {}
        rows: list[dict[str, Any]] = []
        now = datetime.now(UTC)
        for key, value in changes.items():
            try:
                spec, text = _check(key, value)
            except ValueError as exc:
                errors[key] = [str(exc)]
                continue
            if not spec.ignored:
                rows.append({"key": key, "value": text, "value_type": spec.type, "updated_at": now})
        if errors:
            raise Invalid(errors)

        def job(conn: Connection) -> None:
            keys = [row["key"] for row in rows]
            conn.execute(settings.delete().where(settings.c.key.in_(keys)))
            if rows:
                conn.execute(settings.insert(), rows)
            panels = conn.execute(select(settings.c.key).where(settings.c.key.like("ui.panel.%"))).scalars().all()
            if len(panels) > _MOST_PANELS:
                raise Invalid({keys[0]: [f"at most {_MOST_PANELS} panels are remembered"]})
            audit.record(conn, actor, "settings.update", "setting", None, keys=sorted(changes))

        await self._db.write(job)
        self._forget()
        return len(changes)

    def _forget(self) -> None:
        self._writes += 1
        self._cache = None


def read_value(conn: Connection, key: str) -> Any:
    """The typed value of a known key within a transaction; `Settings.value` keeps what it has read."""
    for table in (settings, app_defaults):
        value = conn.execute(select(table.c.value).where(table.c.key == key)).scalar()
        if value is not None:
            return REGISTRY[key].parse(value)
    return REGISTRY[key].parse(REGISTRY[key].default)


def _resolve(conn: Connection) -> dict[str, tuple[str, str]]:
    found = {key: (spec.default, "hardcoded") for key, spec in REGISTRY.items()}
    for table, source in ((app_defaults, "default"), (settings, "user")):
        for key, value in conn.execute(select(table.c.key, table.c.value)):
            if spec_of(key) is not None:  # a key of another version is kept but not shown
                found[key] = (value, source)
    return found
