"""The tenants of one server as frozen values, read once at its start; every problem of the source is told.

A tenant id is a name, never a permission: who may use which is said by `Access`, and decided in `access.py`.

Who serves them (`load_tenants`): nothing is set → None, and this module need not even be imported, because
`settings.tenant_sources` says so. `Tenants.warnings` are to be logged by the server that starts with them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from zorivest_rpc.config import Settings
from zorivest_rpc.config_file import edit_distance
from zorivest_rpc.tenants.sources import (
    VARIABLE,
    Document,
    TenantsRefused,
    permission_problem,
    read_file,
    read_variable,
)

__all__ = [
    "ALWAYS",
    "FIELDS",
    "MOST_TENANTS",
    "SEATS",
    "Access",
    "Tenant",
    "Tenants",
    "build",
    "load_tenants",
    "normalise_id",
]

MOST_TENANTS: Final = 500
ALWAYS: Final = ("core", "discovery")  # toolsets that no tenant is without
SEATS: Final = ("none", "read-only", "read-write", "admin")
_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# A key that is put where its variable belongs would be shown as that variable's name by every report.
_VARIABLE_NAME: Final = re.compile(r"(?!zrv_(?:sk|ak)_)[A-Za-z_][A-Za-z0-9_]*")
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_API_PREFIX: Final = "/api/v1"
# What nearly every address looks like: 500 tenants are built in 2 ms instead of 12, and a server starts with them.
_USUAL_URL: Final = re.compile(r"https?://[A-Za-z0-9.-]*[A-Za-z0-9](?::[1-9][0-9]{0,3})?(?:/[A-Za-z0-9._~/-]*)?")
_UNCLEAN: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VISIBLE: Final = re.compile(r"[ -~]*")


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant as configured. What is secret stands in no repr."""

    id: str
    api_base_url: str | None = None  # with `/api/v1` at its end, whatever the source says; None where it is embedded
    embedded: bool = False
    api_key_env: str | None = None
    api_key: str | None = None
    authorization: str | None = None
    client_header: str | None = None
    client_base_url: str | None = None  # None: the same as `api_base_url`
    http_timeout_ms: int = 30_000
    name: str | None = None
    description: str | None = None
    enabled: bool = True
    read_only: bool = False
    toolsets: tuple[str, ...] | None = None  # None: no bound; else with `core` and `discovery`
    max_concurrency: int = 16
    calls_per_minute: int | None = None

    def __repr__(self) -> str:
        return f"Tenant({self.id!r}, {self.where})"

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.name or self.id

    @property
    def where(self) -> str:
        return "embedded" if self.embedded else self.api_base_url or ""

    def key_of(self, environ: Mapping[str, str]) -> str | None:
        """Its API key, read at this moment; None where the variable is not set, or where there is none by design."""
        if self.api_key_env is not None:
            return environ.get(self.api_key_env, "").strip() or None
        return self.api_key

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        """Whether its credential is at hand; one that is missing stops this tenant alone."""
        return self.embedded or self.authorization is not None or self.key_of(environ) is not None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use which tenants: the hash of an access key, and the ids that it opens."""

    key_sha256: str
    name: str
    clients: tuple[str, ...] | Literal["*"]
    seat: str = "read-only"

    def __repr__(self) -> str:
        return f"Access({self.name!r}, {self.clients!r})"


class Tenants(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, and the rules of access; without rules every caller that is let in may use every tenant."""

    source: str  # `CLIENTS_CONFIG` or the file's path
    tenants: Mapping[str, Tenant]
    access: tuple[Access, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def embedded(self) -> tuple[str, ...]:
        return tuple(tenant.id for tenant in self.tenants.values() if tenant.embedded)


class Field(NamedTuple):
    """One key of a tenant in the source; `takes` judges a value and `what` says what it takes."""

    key: str
    name: str
    what: str
    takes: Callable[[Any], bool]


def load_tenants(
    settings: Settings, environ: Mapping[str, str], toolset_names: Collection[str] | None = None
) -> Tenants | None:
    """The tenants of the one source that is set, or None. TenantsRefused has a line for each thing that is wrong.

    `toolset_names` are those that a tenant may be bound to; None leaves them unjudged, where no catalogue is read."""
    present = settings.tenant_sources
    if not present:
        return None
    if len(present) > 1:
        text = "Set only one of --tenants-file, ZORIVEST_TENANTS_FILE and CLIENTS_CONFIG."
        raise TenantsRefused(present[0], [text])
    if VARIABLE in present:
        text = environ.get(VARIABLE, "")
        if not text.strip():
            raise _empty(VARIABLE)
        return build(VARIABLE, read_variable(text), toolset_names)
    path = settings.tenants_file or ""
    if not path.strip():
        raise _empty(present[0])
    document = read_file(path)
    exposed = permission_problem(path)
    strict = [exposed] if exposed and settings.strict_permissions else []
    made = build(path, document, toolset_names, strict)
    return msgspec.structs.replace(made, warnings=(exposed, *made.warnings)) if exposed else made


def _empty(name: str) -> TenantsRefused:
    return TenantsRefused(name, [f"{name} is set but empty."])


def build(
    source: str, document: Document, toolset_names: Collection[str] | None = None, problems: Collection[str] = ()
) -> Tenants:
    """The tenants of a document; TenantsRefused tells every problem, after those that are handed in."""
    told = [*problems, *document.problems]
    tenants: dict[str, Tenant] = {}
    spelt: dict[str, str] = {}
    if not document.clients:
        told.append(f"{source}: contains no clients")
    if len(document.clients) > MOST_TENANTS:
        told.append(f"{source}: has {len(document.clients)} clients; at most {MOST_TENANTS} are possible")
        raise TenantsRefused(source, told)
    twice = getattr(document.clients, "twice", ())
    told += [f'client "{_shown(raw)}": same id as "{_shown(raw)}" after normalisation' for raw in twice]
    for raw, table in document.clients.items():
        id = normalise_id(raw)
        if id is None:
            told.append(f'client "{_shown(raw)}": not a usable id (a-z, 0-9, "-", "_", at most 64 characters)')
            continue
        if id in spelt:
            told.append(f'client "{_shown(raw)}": same id as "{_shown(spelt[id])}" after normalisation')
            continue
        spelt[id] = raw
        wrong = _problems_with(table, toolset_names)
        told += [f'client "{id}": {problem}' for problem in wrong]
        if not wrong:
            tenants[id] = _tenant(id, table)
    access = _build_access(source, document.access, frozenset(spelt), told)
    if told:
        raise TenantsRefused(source, told)
    warnings = tuple(
        f'{source}: client "{tenant.id}" has its apiKey in the source; name a variable in apiKeyEnv instead'
        for tenant in tenants.values()
        if tenant.api_key is not None
    )
    return Tenants(source=source, tenants=tenants, access=access, warnings=warnings)


def normalise_id(raw: str) -> str | None:
    """The id that a name means, or None where it cannot be one. Only ASCII is folded: the Kelvin sign is no k."""
    bare = raw.strip()
    if not bare.isascii():
        return None
    folded = bare.lower()
    return folded if _ID.fullmatch(folded) else None


def _tenant(id: str, table: Mapping[str, Any]) -> Tenant:
    values = {_BY_KEY[key].name: value for key, value in table.items() if value is not None}
    if "api_base_url" in values:
        values["api_base_url"] = _root(values["api_base_url"])
    if "toolsets" in values:
        values["toolsets"] = tuple(dict.fromkeys((*ALWAYS, *values["toolsets"])))
    return Tenant(id=id, **values)


def _root(url: str) -> str:
    """The API's root from an address with or without `/api/v1`, as `--api-url` takes it."""
    return url.strip().rstrip("/").removesuffix(_API_PREFIX).rstrip("/") + _API_PREFIX


# --- what a value may be


def _is_url(value: Any) -> bool:
    """An address that can be the root of an API: nothing in it that a path could not follow, and no password."""
    if not isinstance(value, str):
        return False
    if _USUAL_URL.fullmatch(value):
        return True
    if not all("!" <= char <= "~" for char in value.strip()):
        return False
    try:
        parts = urlsplit(value.strip())
        port = parts.port
    except ValueError:
        return False
    plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0 and plain


def _is_bool(value: Any) -> bool:
    return type(value) is bool


def _is_variable(value: Any) -> bool:
    return isinstance(value, str) and _VARIABLE_NAME.fullmatch(value) is not None


def _is_visible(value: Any) -> bool:
    """What a header may carry: visible ASCII, with single spaces and tabs inside left to the sender's care."""
    return isinstance(value, str) and bool(value.strip()) and value == value.strip() and _fits_header(value)


def _fits_header(value: str) -> bool:
    return len(value) <= 8192 and _VISIBLE.fullmatch(value) is not None


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and len(value) <= 8192 and all("!" <= char <= "~" for char in value)


def _is_text(most: int) -> Callable[[Any], bool]:
    def takes(value: Any) -> bool:
        return value is None or (isinstance(value, str) and len(value) <= most and _is_clean(value))

    return takes


def _is_clean(value: str) -> bool:
    """No control character, and nothing that UTF-8 cannot carry (half of a surrogate pair)."""
    return _UNCLEAN.search(value) is None


def _is_number(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_URL: Final = "an absolute http or https URL without user, password, query and fragment"
_SWITCH: Final = "true or false"
_WORD: Final = "visible ASCII without spaces"
FIELDS: Final = (
    Field("apiBaseUrl", "api_base_url", _URL, _is_url),
    Field("coreBaseUrl", "api_base_url", _URL, _is_url),  # the name that the original gave it
    Field("embedded", "embedded", _SWITCH, _is_bool),
    Field("apiKeyEnv", "api_key_env", "the name of an environment variable", _is_variable),
    Field("apiKey", "api_key", _WORD, _is_word),
    Field("authorization", "authorization", "a header value in visible ASCII", _is_visible),
    Field("clientHeader", "client_header", "visible ASCII", _is_visible),
    Field("clientBaseUrl", "client_base_url", _URL, _is_url),
    Field("httpTimeoutMs", "http_timeout_ms", "a whole number from 100 to 600000", _is_number(100, 600_000)),
    Field("name", "name", "a text of at most 80 characters without control characters", _is_text(80)),
    Field("description", "description", "a text of at most 300 characters without control characters", _is_text(300)),
    Field("enabled", "enabled", _SWITCH, _is_bool),
    Field("readOnly", "read_only", _SWITCH, _is_bool),
    Field("toolsets", "toolsets", "a list of toolset names", _is_names),
    Field("maxConcurrency", "max_concurrency", "a whole number from 1 to 256", _is_number(1, 256)),
    Field("callsPerMinute", "calls_per_minute", "a whole number from 1 to 100000", _is_number(1, 100_000)),
)
_BY_KEY: Final = {field.key: field for field in FIELDS}
_NOT_EMBEDDED: Final = ("apiBaseUrl", "coreBaseUrl", "clientBaseUrl", "authorization", "apiKey", "apiKeyEnv")
_CREDENTIALS: Final = ("apiKeyEnv", "apiKey", "authorization")


def _problems_with(table: Any, toolset_names: Collection[str] | None) -> list[str]:
    """What is wrong with one tenant; a value is never repeated, because any may be a secret that was misplaced."""
    if not isinstance(table, Mapping):
        return ["must be an object of settings"]
    twice = getattr(table, "twice", ())
    problems = [f"{_shown(key)} is given twice" for key in twice]
    for key, value in table.items():
        field = _BY_KEY.get(key)
        if field is None:
            problems.append(f'unknown field "{_shown(key)}"{_nearest(key, _BY_KEY)}')
        elif not field.takes(value):
            problems.append(f"{key} must be {field.what}")
    if table.get("embedded") is True:
        problems += [f"embedded excludes {key}" for key in _NOT_EMBEDDED if key in table]
    else:
        if "apiBaseUrl" not in table and "coreBaseUrl" not in table:
            problems.append("apiBaseUrl is required")
        if sum(key in table for key in _CREDENTIALS) != 1:
            problems.append("give exactly one of apiKeyEnv, apiKey, authorization")
    if "apiBaseUrl" in table and "coreBaseUrl" in table:
        problems.append("coreBaseUrl is another name of apiBaseUrl; give one of them")
    names = table.get("toolsets")
    if toolset_names is not None and _is_names(names):
        unknown = [name for name in names or () if name not in toolset_names]
        problems += [f'unknown toolset "{_shown(name)}"{_nearest(name, toolset_names)}' for name in unknown]
    return problems


# --- who may use which


_ACCESS_KEYS: Final = ("keySha256", "name", "clients", "seat")


def _build_access(source: str, rules: Any, ids: frozenset[str], told: list[str]) -> tuple[Access, ...]:
    if not isinstance(rules, list):
        told.append(f"{source}: access must be a list")
        return ()
    made: list[Access] = []
    names: dict[str, int] = {}
    hashes: dict[str, int] = {}
    for index, rule in enumerate(rules):
        problems = _problems_with_rule(rule, ids)
        told += [f"access[{index}]: {problem}" for problem in problems]
        if problems:
            continue
        entry = _access(rule)
        for known, value, what in ((names, entry.name, "name"), (hashes, entry.key_sha256, "keySha256")):
            if value in known:
                told.append(f"access[{index}]: same {what} as access[{known[value]}]")
            known.setdefault(value, index)
        made.append(entry)
    return tuple(made)


def _problems_with_rule(rule: Any, ids: frozenset[str]) -> list[str]:
    if not isinstance(rule, Mapping):
        return ["must be an object"]
    problems = [f"{_shown(key)} is given twice" for key in getattr(rule, "twice", ())]
    problems += [
        f'unknown field "{_shown(key)}"{_nearest(key, _ACCESS_KEYS)}' for key in rule if key not in _ACCESS_KEYS
    ]
    problems += [f"{key} is required" for key in _ACCESS_KEYS[:3] if key not in rule]
    key, name, seat, clients = (
        rule.get("keySha256", "0" * 64),
        rule.get("name", "x"),
        rule.get("seat"),
        rule.get("clients", "*"),
    )
    if not isinstance(key, str) or not _SHA256.fullmatch(key):
        problems.append("keySha256 must be 64 hexadecimal digits")
    if not isinstance(name, str) or not name.strip() or not _is_text(80)(name):
        problems.append("name must be a text of 1 to 80 characters without control characters")
    if "seat" in rule and seat not in SEATS:
        problems.append(f"seat must be one of {', '.join(SEATS)}")
    if clients == "*":
        return problems
    if not _is_names(clients) or not clients:
        return [*problems, 'clients must be "*" or a list of client ids']
    return problems + [f'unknown client "{_shown(id)}"' for id in clients if normalise_id(id) not in ids]


def _access(rule: Mapping[str, Any]) -> Access:
    clients = rule["clients"]
    ids: tuple[str, ...] | Literal["*"] = "*"
    if clients != "*":
        ids = tuple(dict.fromkeys(id for raw in clients if (id := normalise_id(raw)) is not None))
    return Access(
        key_sha256=rule["keySha256"].lower(), name=rule["name"], clients=ids, seat=rule.get("seat", "read-only")
    )


def _shown(text: str) -> str:
    """A name from outside, on one line and cut."""
    return json.dumps(text)[1:-1][:64]


def _nearest(given: str, known: Collection[str]) -> str:
    """A proposal where two letters differ at most, or the way in which words are joined."""
    folded = _folded(given)
    for name in known:
        if _folded(name) == folded:
            return f'; did you mean "{name}"?'
    best = min(((edit_distance(given, name), name) for name in known), default=(3, ""))
    return f'; did you mean "{best[1]}"?' if best[0] < 3 else ""


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
