"""A profile and its servers as frozen values, from the file, the environment and the flags; every problem is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from zorivest_rpc.config import Settings, type_name
from zorivest_rpc.config_file import ConfigFileRefused, Problem, nearest_key
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.keys import IGNORED, LITERAL_TOKENS, PROFILE_KEYS, SERVER_KEYS, Key

__all__ = [
    "Profile",
    "Server",
    "check_profiles",
    "join",
    "load_profile",
    "shown_endpoint",
    "take_reloaded",
]

# A profile is judged before the first answer, so nothing here is compiled or imported for it: see docs/benchmarks.md.
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_NAME: Final = _LOWER | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ_-")
_HEADER: Final = _NAME | frozenset("!#$%&'*+.^`|~")  # a token of RFC 9110, 5.6.2
_HOST: Final = _NAME - {"_"} | {"."}
_PATH: Final = _NAME | frozenset("./~")
_LONGEST_SERVER, _LONGEST_TOOL = 24, 64
# Hop-by-hop headers (RFC 9110, 7.6.1), what frames the message, and what the transport itself sets.
_OWN_HEADERS: Final = frozenset(
    (
        *("authorization", "host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te"),
        *("trailer", "transfer-encoding", "upgrade", "proxy-connection", "content-length", "content-type", "accept"),
        *("content-encoding", "expect", "cookie", "last-event-id"),
    )
)
_NO_LITERAL: Final = "a literal token is not accepted; name an environment variable in auth_bearer_env"


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One upstream as configured; the keys and their meaning stand in `keys.py`."""

    name: str
    endpoint: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    env_pass: tuple[str, ...] = ()
    enabled: bool = True
    timeout_secs: int = 15
    call_timeout_secs: int | None = None
    tool_timeouts: Mapping[str, int] = {}
    auth_bearer_env: str | None = None
    headers_env: Mapping[str, str] = {}
    tool_allowlist: tuple[str, ...] | None = None
    prompt_allowlist: tuple[str, ...] | None = None
    resource_allowlist: tuple[str, ...] | None = None
    tool_aliases: Mapping[str, str] = {}
    prefix: bool = True
    autoload: bool = True
    era: str = "auto"
    trust_annotations: bool = False
    allow_private_network: bool = False
    argument_renames: Mapping[str, str] = {}
    shared: bool = False
    tenants: tuple[str, ...] = ()
    auth_bearer_env_by_tenant: Mapping[str, str] = {}
    tenant: str = ""
    """Whose own connection this is; empty where one connection is for all that may use it. No key of the file."""
    tokens_of_others: tuple[str, ...] = ()
    """Beside one client's own token, the variables of those that other clients have there. No key of the file."""
    max_result_bytes: int = 4 * 1024 * 1024

    @property
    def toolset(self) -> str:
        return f"mcp-{self.name}"

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """Every variable whose value is a credential of this server."""
        named = (self.auth_bearer_env, *self.headers_env.values(), *self.auth_bearer_env_by_tenant.values())
        return tuple(dict.fromkeys(name for name in named if name))

    @property
    def target(self) -> str:
        """Where it is, for people: no query, no arguments, because either may hold what is secret."""
        return shown_endpoint(self.endpoint) if self.endpoint else self.command or ""

    def call_seconds(self, tool: str, profile: Profile) -> int:
        """The deadline of a call: of this tool, else of this server, else of the profile."""
        return self.tool_timeouts.get(tool) or self.call_timeout_secs or profile.tool_timeout_secs

    def allows(self, kind: str, name: str) -> bool:
        """Whether an allowlist lets a tool, prompt or resource through; a list for tools alone lets nothing else."""
        if kind == "tool":
            allowed = self.tool_allowlist
        else:
            allowed = self.prompt_allowlist if kind == "prompt" else self.resource_allowlist
        if allowed is None:
            return kind == "tool" or self.tool_allowlist is None
        from zorivest_rpc.gateway.patterns import matches_any

        return matches_any(allowed, name)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What one profile says, with the environment and the flags in it."""

    name: str = "default"
    file: str | None = None
    tool_confirmation_mode: str = "mcp-only"
    require_confirm_tool: tuple[str, ...] = ()
    approve_tool: tuple[str, ...] = ()
    deny_tool: tuple[str, ...] = ()
    confirm_destructive: bool = True
    confirmation_channel: str = "auto"
    tool_timeout_secs: int = 45
    tool_retry_attempts: int = 2
    tool_retry_delay_ms: int = 500
    pin: str = "tofu"
    max_upstream_tools: int = 120
    mcp_servers: tuple[Server, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def enabled(self) -> tuple[Server, ...]:
        return tuple(server for server in self.mcp_servers if server.enabled)

    def server(self, name: str) -> Server | None:
        return next((server for server in self.mcp_servers if server.name == name.lower()), None)


def load_profile(settings: Settings, built_in: Collection[str] = ()) -> Profile:
    """The chosen profile. ConfigFileRefused tells every problem of every profile of the file.

    `built_in` are the names of our own tools, which no alias may take."""
    name = settings.profile or "default"
    file = settings.file
    profiles: Mapping[str, Any] = file.document.get("profiles", {}) if file else {}
    problems = check_profiles(profiles, built_in)
    if settings.profile and settings.profile not in profiles:
        known = ", ".join(profiles) or "none"
        text = f'profile "{settings.profile}" does not exist; known profiles: {known}'
        if file is None:
            raise ConfigError("--profile", text)
        problems.append(Problem("profiles", text))
    if file is not None and problems:
        raise ConfigFileRefused(file.path, problems, file.document)
    return _build(name, file.path if file else None, profiles.get(name, {}), settings)


def take_reloaded(running: Profile, fresh: Profile) -> Profile:
    """The running profile with the servers and lists of a file that was read again; all else needs a restart.

    ConfigError where another file counts now, such as when one of the working directory was changed and not pinned."""
    if fresh.file != running.file or fresh.name != running.name:
        raise ConfigError(running.file or "--config", "is not the file that counts now; restart to change over")
    return msgspec.structs.replace(
        running,
        mcp_servers=fresh.mcp_servers,
        require_confirm_tool=fresh.require_confirm_tool,
        approve_tool=fresh.approve_tool,
        deny_tool=fresh.deny_tool,
        warnings=fresh.warnings,
    )


def check_profiles(profiles: Any, built_in: Collection[str] = ()) -> list[Problem]:
    """What is wrong with the tables under `profiles`; nothing if they are no tables, which is told elsewhere."""
    problems: list[Problem] = []
    for name, table in profiles.items() if isinstance(profiles, Mapping) else ():
        path = f"profiles.{_key(name)}"
        if not isinstance(table, Mapping):
            problems.append(Problem(path, f"expected table, found {type_name(table)}"))
            continue
        problems += _check_table(PROFILE_KEYS, table, path, IGNORED)
        servers = table.get("mcp_servers", [])
        if isinstance(servers, list) and all(isinstance(server, Mapping) for server in servers):
            for position, server in enumerate(servers):
                problems += _check_server(server, f"{path}.mcp_servers[{position}]")
            problems += _check_names(servers, f"{path}.mcp_servers")
            problems += _check_aliases(servers, f"{path}.mcp_servers", built_in)
    return problems


def join(*lists: Iterable[str]) -> tuple[str, ...]:
    """One list after the other: trimmed, without blanks, and each entry where it stood first."""
    return tuple(dict.fromkeys(entry.strip() for entries in lists for entry in entries if entry.strip()))


def shown_endpoint(endpoint: str) -> str:
    """A URL without its query and fragment, which may hold a key."""
    return endpoint.partition("#")[0].partition("?")[0]


def _build(name: str, file: str | None, table: Mapping[str, Any], settings: Settings) -> Profile:
    known = {key.name: table[key.name] for key in PROFILE_KEYS if key.name in table}
    servers = tuple(_server(entry) for entry in known.pop("mcp_servers", ()))
    for scalar in ("tool_confirmation_mode", "tool_timeout_secs", "tool_retry_attempts", "tool_retry_delay_ms"):
        if (given := getattr(settings, scalar)) is not None:
            known[scalar] = given
    lists: dict[str, Any] = {
        "require_confirm_tool": join(known.pop("require_confirm_tool", ()), settings.require_confirm_tool),
        "approve_tool": join(known.pop("approve_tool", ()), settings.approve_tool),
        "deny_tool": join(known.pop("deny_tool", ())),
    }
    warnings = tuple(
        f'MCP server "{server.name}": {kind}_allowlist is empty, so none of its {kind}s is offered'
        for server in servers
        for kind in ("tool", "prompt", "resource")
        if getattr(server, f"{kind}_allowlist") == ()
    )
    return Profile(name=name, file=file, mcp_servers=servers, warnings=warnings, **lists, **known)


def _server(table: Mapping[str, Any]) -> Server:
    values: dict[str, Any] = {key.name: table[key.name] for key in SERVER_KEYS if key.name in table}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Server(**{**values, **lists})


# --- the checks


def _check_table(keys: tuple[Key, ...], table: Mapping[str, Any], path: str, ignored: Iterable[str]) -> list[Problem]:
    problems: list[Problem] = []
    by_name = {key.name: key for key in keys}
    for name, value in table.items():
        place = f"{path}.{_key(name)}"
        if name in ignored:
            continue
        if name in by_name:
            problems += _check_value(by_name[name], value, place)
        elif name in LITERAL_TOKENS and keys is SERVER_KEYS:
            problems.append(Problem(place, _NO_LITERAL))
        else:
            problems.append(Problem(place, f"unknown key{nearest_key(name, list(by_name))}"))
    problems += [Problem(f"{path}.{key.name}", _MISSING) for key in keys if key.required and key.name not in table]
    return problems


_MISSING: Final = "required key is missing"


def _check_value(key: Key, value: Any, path: str) -> list[Problem]:
    found = type_name(value)
    if found != key.kind:
        return [Problem(path, f"expected {key.kind}, found {found}")]
    if key.kind == "array":
        return [problem for place, each in enumerate(value) for problem in _check_member(key, each, f"{path}[{place}]")]
    if key.kind == "table":
        return [problem for name, each in value.items() for problem in _check_member(key, each, f"{path}.{_key(name)}")]
    if key.choices and value not in key.choices:
        return [Problem(path, f'must be one of {", ".join(key.choices)}, found "{value}"')]
    return _check_bounds(key, value, path)


def _check_member(key: Key, value: Any, path: str) -> list[Problem]:
    found = type_name(value)
    if found != key.inside:
        return [Problem(path, f"expected {key.inside}, found {found}")]
    return _check_bounds(key, value, path)


def _check_bounds(key: Key, value: Any, path: str) -> list[Problem]:
    if key.bounds and isinstance(value, int) and not key.bounds[0] <= value <= key.bounds[1]:
        return [Problem(path, f"must be between {key.bounds[0]} and {key.bounds[1]}, found {value}")]
    return []


def _check_server(table: Mapping[str, Any], path: str) -> list[Problem]:
    problems = _check_table(SERVER_KEYS, table, path, ())
    name, endpoint = table.get("name"), table.get("endpoint")
    if isinstance(name, str) and not _is_server_name(name):
        allowed = 'a-z, 0-9, "-", "_", at most 24 characters, no "__"'
        problems.append(Problem(f"{path}.name", f'"{name}" is not a usable server name ({allowed})'))
    command = table.get("command")
    if endpoint is not None and command is not None:
        problems.append(Problem(path, "set either endpoint or command, not both"))
    elif endpoint is None and (command is None or (isinstance(command, str) and not command.strip())):
        problems.append(Problem(path, "set endpoint or command"))
    elif endpoint is not None:
        without = [key for key in ("args", "cwd", "env_pass") if key in table]
        problems += [Problem(f"{path}.{key}", "set either endpoint or command, not both") for key in without]
    if isinstance(endpoint, str):
        problems += _check_endpoint(endpoint, table, path)
    problems += _check_variables(table, path)
    headers = table.get("headers_env")
    for header in headers if isinstance(headers, Mapping) else ():
        folded = header.lower()
        if folded in _OWN_HEADERS or folded.startswith("mcp-") or not header or not _HEADER.issuperset(header):
            problems.append(Problem(f"{path}.headers_env.{_key(header)}", f'header "{header}" cannot be set here'))
    return problems


def _is_server_name(name: str) -> bool:
    inner = _LOWER.issuperset(name.replace("_", "").replace("-", "")) and "__" not in name
    return inner and 0 < len(name) <= _LONGEST_SERVER and {name[0], name[-1]} <= _LOWER


def _is_plain(endpoint: str, sends: bool) -> bool:
    """Whether it is written in the simplest characters, and goes where a token may, which leaves nothing to judge."""
    scheme, _, rest = endpoint.partition("://")
    authority, _, path = rest.partition("/")
    host, colon, port = authority.partition(":")
    if not host or not _HOST.issuperset(host) or not _PATH.issuperset(path):
        return False
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        return False
    return scheme == "https" or (scheme == "http" and (not sends or host in ("localhost", "127.0.0.1")))


def _check_endpoint(endpoint: str, table: Mapping[str, Any], path: str) -> list[Problem]:
    sends = [key for key in ("auth_bearer_env", "headers_env", "auth_bearer_env_by_tenant") if table.get(key)]
    if _is_plain(endpoint, bool(sends)):
        return []
    from urllib.parse import urlsplit

    place = f"{path}.endpoint"
    try:
        parts = urlsplit(endpoint)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits, parts = False, urlsplit("")
    if "@" in parts.netloc or (not fits and "@" in endpoint.partition("?")[0]):  # never repeat what holds a password
        return [Problem(place, "the URL must not carry a user name or password")]
    if not fits or "#" in endpoint or any(char.isspace() or not char.isprintable() for char in endpoint):
        shown = shown_endpoint(endpoint) + ("#…" if "#" in endpoint else "")
        return [Problem(place, f'"{shown}" is not an absolute http or https URL')]
    if not sends or parts.scheme == "https" or _is_loopback(parts.hostname or ""):
        return []
    return [Problem(f"{path}.{key}", "a token may only be sent over https or to a loopback address") for key in sends]


def _check_variables(table: Mapping[str, Any], path: str) -> list[Problem]:
    """A token pasted where the name of a variable belongs is told without being repeated."""
    named: list[tuple[str, Any]] = [(f"{path}.auth_bearer_env", table.get("auth_bearer_env"))]
    for key in ("headers_env", "auth_bearer_env_by_tenant"):
        inner = table.get(key)
        named += [(f"{path}.{key}.{_key(name)}", value) for name, value in _items(inner)]
    passed = table.get("env_pass")
    named += [
        (f"{path}.env_pass[{place}]", value) for place, value in enumerate(passed if type(passed) is list else ())
    ]
    return [
        Problem(place, _NO_LITERAL)
        for place, value in named
        if isinstance(value, str) and not (value.isascii() and value.isidentifier())
    ]


def _check_names(servers: list[Mapping[str, Any]], path: str) -> list[Problem]:
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for position, server in enumerate(servers):
        name = server.get("name")
        if not isinstance(name, str):
            continue
        earlier = first.setdefault(name.lower(), position)
        if earlier != position:
            text = f'server name "{name}" is used twice (entries {earlier} and {position})'
            problems.append(Problem(f"{path}[{position}].name", text))
    return problems


def _check_aliases(servers: list[Mapping[str, Any]], path: str, built_in: Collection[str]) -> list[Problem]:
    problems: list[Problem] = []
    taken: set[str] = set()
    for position, server in enumerate(servers):
        for tool, alias in _items(server.get("tool_aliases")):
            place = f"{path}[{position}].tool_aliases.{_key(tool)}"
            if not isinstance(alias, str):
                continue
            if not 0 < len(alias) <= _LONGEST_TOOL or not _NAME.issuperset(alias):
                allowed = 'A-Z, a-z, 0-9, "-", "_", at most 64 characters'
                problems.append(Problem(place, f'alias "{alias}" is not a usable tool name ({allowed})'))
            elif alias in built_in:
                problems.append(Problem(place, f'alias "{alias}" is the name of a built-in tool'))
            elif alias in taken:
                problems.append(Problem(place, f'alias "{alias}" is used twice'))
            taken.add(alias)
    return problems


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, Mapping) else ()


def _is_loopback(host: str) -> bool:
    import ipaddress

    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761, 6.3
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key(name: str) -> str:
    """A key as TOML writes it in a dotted path."""
    return name if name and _NAME.issuperset(name) else f'"{name}"'
