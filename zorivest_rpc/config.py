"""Flags over environment over file over defaults, folded into one frozen Settings; the only reader of `os.environ`.

The options are a table, so that the parser, the help text and the reference in the docs cannot disagree. It is
parsed by hand: the usual library costs as much start-up time as all of the protocol.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from zorivest_rpc.config_file import ConfigFile, ConfigFileRefused, Problem, find, nearest_key
from zorivest_rpc.errors import ConfigError

__all__ = [
    "OPTIONS",
    "Option",
    "Settings",
    "chosen_data_dir",
    "default_data_dir",
    "is_switch",
    "parse",
    "type_name",
    "usage",
]

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


class Option(NamedTuple):
    """`kind` is str, int, bool or list; `commands` the verbs that take it."""

    name: str
    kind: type
    default: Any
    help: str
    commands: tuple[str, ...]
    choices: tuple[str, ...] = ()
    bounds: tuple[int, int] | None = None
    of_profile: bool = False  # in the file it stands in a profile, and a list adds to the profile's own
    of_tenancy: bool = False  # in the file it stands in `[tenancy]`, without "tenancy_" in front

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "ZORIVEST_" + self.name.upper()

    @property
    def table(self) -> str:
        """The table of the file that it belongs to, where that is not `[server]`."""
        return "tenancy" if self.of_tenancy else "devtools" if self.name.startswith("devtools_") else ""

    @property
    def key(self) -> str:
        """Its name in that table."""
        return self.name.removeprefix(f"{self.table}_") if self.table else self.name


_BOTH: Final = ("stdio", "serve")
_TERMINAL: Final = ("tools", "toolsets", "budget", "doctor")
_ALL: Final = (*_BOTH, *_TERMINAL)
_GATEWAY: Final = (*_ALL, "mcp")
_TENANTS: Final = (*_ALL, "tenants")
CONFIRMATION_MODES: Final = ("never", "mcp-only", "always")
OPTIONS: Final = (
    Option("toolsets", str, None, "toolsets that are listed at start: names, all or default", _ALL),
    Option("tools", str, None, "single tools that are listed too", _ALL),
    Option("exclude_tools", list, (), "tools that cannot be listed or called", _ALL),
    Option("read_only", bool, False, "refuse every tool that writes", _ALL),
    Option("client_mode", str, "auto", "how the server presents itself: auto, anthropic, dynamic or static", _ALL),
    Option("confirm", str, "auto", "who is asked before a gated tool runs", _ALL, ("auto", "always", "never")),
    Option(
        "allowed_callers",
        list,
        ("code_execution",),
        "what may call the analytics tools from code, as Anthropic clients are told",
        _ALL,
    ),
    Option(
        "exposure",
        str,
        "auto",
        "what becomes of modes without data and of tools without a mode: left out, told in _meta alone, or nothing",
        _ALL,
        ("auto", "filter", "advisory", "off"),
    ),
    Option("exposure_trading", str, "off", "whether the trading tools follow the journal too", _ALL, ("on", "off")),
    Option("exposure_strict", bool, False, "refuse calls of what is left out, instead of answering with a hint", _ALL),
    Option(
        "exposure_meta_skip",
        list,
        ("cursor", "cursor-vscode"),
        "clients that are told no modes and no counts in _meta",
        _ALL,
    ),
    Option("import_root", list, (), "directory that import tools may read files from", _ALL),
    Option("api_url", str, None, "a backend that is there already; without it the embedded one is used", _ALL),
    Option("toolset_config", str, None, "JSON file with defaultToolsets, clientOverrides and clientModes", _ALL),
    Option("gui_page", str, None, "page that is opened where the desktop application is not installed", _ALL),
    Option("config", str, None, "TOML file with any of these options, and the profiles", (*_GATEWAY, "tenants")),
    Option("profile", str, None, "profile of the file, with the MCP servers behind this one", (*_GATEWAY, "tenants")),
    Option(
        "tool_confirmation_mode",
        str,
        None,
        "whether a tool is confirmed before it runs: the gated ones alone, those of other servers too, or every one",
        _GATEWAY,
        CONFIRMATION_MODES,
        of_profile=True,
    ),
    Option("require_confirm_tool", list, (), "one more tool to confirm; * matches any run", _GATEWAY, of_profile=True),
    Option("approve_tool", list, (), "one more tool that is approved for good", _GATEWAY, of_profile=True),
    Option(
        "tool_timeout_secs",
        int,
        None,
        "deadline of one call of another server's tool",
        _GATEWAY,
        bounds=(1, 3600),
        of_profile=True,
    ),
    Option(
        "tool_retry_attempts",
        int,
        None,
        "attempts to reach another server, the first included",
        _GATEWAY,
        bounds=(1, 10),
        of_profile=True,
    ),
    Option(
        "tool_retry_delay_ms",
        int,
        None,
        "wait before the second attempt, doubled for each further one",
        _GATEWAY,
        bounds=(0, 60_000),
        of_profile=True,
    ),
    Option("devtools_enabled", bool, False, "have the tools that observe a web page, listed on request", _ALL),
    Option("devtools_port", int, 8767, "loopback port where pages find a stdio server; 0 picks a free one", _BOTH),
    Option("devtools_origins", list, (), "one more origin whose pages may be observed, with its scheme", _BOTH),
    Option("devtools_export_dir", str, None, "directory that generate may write files into", _BOTH),
    Option("showcase", bool, False, "serve a few tools that show the protocol instead of the journal", _BOTH),
    Option("tenants_file", str, None, "serve the clients of this file (.json, .json.gz or .toml), not one", _TENANTS),
    Option(
        "strict_permissions",
        bool,
        False,
        "refuse a tenants file that others may read, instead of warning",
        _TENANTS,
        of_tenancy=True,
    ),
    Option(
        "tenancy_header",
        str,
        "fallback",
        "what the header X-Client-ID does: select a client where clientId is absent, nothing, or it has to be there",
        _BOTH,
        ("fallback", "ignore", "require"),
        of_tenancy=True,
    ),
    Option(
        "tenancy_mcp_param_header",
        bool,
        False,
        "have modern clients repeat clientId in the header Mcp-Param-Client-Id, for proxies",
        _BOTH,
        of_tenancy=True,
    ),
    Option(
        "embedded_running",
        int,
        8,
        "embedded backends of clients that may run at once",
        _ALL,
        bounds=(1, 500),
        of_tenancy=True,
    ),
    Option(
        "data_dir",
        str,
        None,
        "where the journal, its keys and the state of sessions are kept",
        (*_GATEWAY, "tenants"),
    ),
    Option("idle_exit", int, 900, "seconds without use after which an embedded backend ends, 0 for never", _ALL),
    Option("log_level", str, "warning", "how much is written to stderr", (*_GATEWAY, "tenants"), LOG_LEVELS),
    Option("log_file", str, None, "write the log to this file instead of stderr", _ALL),
    Option("message_limit", int, 16 * 1024 * 1024, "largest message taken, in bytes", _BOTH),
    Option("calls_per_client", int, 256, "requests of one client that may run at once", _BOTH),
    Option("calls_per_server", int, 4096, "requests that may run at once in all", _BOTH),
    Option("input_seconds", int, 600, "how long a person may think about a question", _BOTH),
    Option(
        "backend_writer",
        str,
        "direct",
        "how the backend is asked: in one write, or by aiohttp",
        _ALL,
        ("direct", "plain"),
    ),
    Option("demo", bool, False, "load the demo data into the embedded backend and say what to do next", ("serve",)),
    Option("host", str, "127.0.0.1", "address to listen on", ("serve",)),
    Option("port", int, 8766, "port to listen on; 0 picks a free one", ("serve",)),
    Option("no_auth", bool, False, "ask for no key; only on a loopback address", ("serve",)),
    Option(
        "trust_client_names",
        bool,
        False,
        "believe the name that a client gives: one that is known to ask its user is not asked by the server",
        ("serve",),
    ),
    Option("allow_host", list, (), "one more name that the Host header may carry", ("serve",)),
    Option("allow_origin", list, (), "one more host name that an Origin may carry", ("serve",)),
    Option("authorization_server", list, (), "publish protected-resource metadata naming this issuer", ("serve",)),
    Option("grace", int, 5, "seconds that running calls get at shutdown", ("serve",)),
    Option("session_hours", int, 24, "life of a session id", ("serve",)),
    Option(
        "http_writer",
        str,
        "direct",
        "how answers are written: in one write, or by aiohttp",
        ("serve",),
        ("direct", "plain"),
    ),
)
_BY_NAME: Final = {option.name: option for option in OPTIONS}


class Settings(NamedTuple):
    """What a command runs with. A secret is never an option: keys come from the environment or a file."""

    command: str
    toolsets: str | None
    tools: str | None
    exclude_tools: tuple[str, ...]
    read_only: bool
    client_mode: str
    confirm: str
    allowed_callers: tuple[str, ...]
    exposure: str
    exposure_trading: str
    exposure_strict: bool
    exposure_meta_skip: tuple[str, ...]
    import_root: tuple[str, ...]
    api_url: str | None
    toolset_config: str | None
    gui_page: str | None
    config: str | None
    profile: str | None
    tool_confirmation_mode: str | None
    require_confirm_tool: tuple[str, ...]  # of the environment and then the flags; the profile's own stand before them
    approve_tool: tuple[str, ...]
    tool_timeout_secs: int | None
    tool_retry_attempts: int | None
    tool_retry_delay_ms: int | None
    devtools_enabled: bool
    devtools_port: int
    devtools_origins: tuple[str, ...]
    devtools_export_dir: str | None
    showcase: bool
    tenants_file: str | None
    strict_permissions: bool
    tenancy_header: str
    tenancy_mcp_param_header: bool
    embedded_running: int
    data_dir: str
    idle_exit: int
    log_level: str
    log_file: str | None
    message_limit: int
    calls_per_client: int
    calls_per_server: int
    input_seconds: int
    backend_writer: str
    demo: bool
    host: str
    port: int
    no_auth: bool
    trust_client_names: bool
    allow_host: tuple[str, ...]
    allow_origin: tuple[str, ...]
    authorization_server: tuple[str, ...]
    grace: int
    session_hours: int
    http_writer: str
    api_key: str | None
    toolsets_by_variable: bool  # the choice came from the environment, which says so where the choice is explained
    inside_claude_code: bool
    devtools_key: str | None = None  # what pages show, instead of one that is made at each start
    client_id: str | None = None  # over stdio and at the terminal, of a server with several clients: this one
    telemetry: str | None = None  # a file for the events of calls and upstreams
    telemetry_content: bool = False  # what was sent and answered goes there too
    tenant_sources: tuple[str, ...] = ()  # what names clients; without any there is one, called `default`
    file: ConfigFile | None = None  # the file that counts
    untrusted: str | None = None  # one in the working directory that does not, because it was never pinned
    trust_dir: str | None = None  # where trust in the working directory's file is remembered, where there is one


def chosen_data_dir(environ: Mapping[str, str]) -> str:
    """What `ZORIVEST_DATA_DIR` says, else the default."""
    return os.path.expanduser(environ.get("ZORIVEST_DATA_DIR") or default_data_dir(environ))


def default_data_dir(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Where this platform keeps the data of programs of this user."""
    if platform == "win32":
        import ntpath

        # HOME is not asked: a Unix shell on Windows sets it, the clients that start us from a menu do not.
        home = environ.get("USERPROFILE") or os.path.expanduser("~")
        return ntpath.join(environ.get("LOCALAPPDATA") or ntpath.join(home, "AppData", "Local"), "zorivest")
    home = environ.get("HOME") or os.path.expanduser("~")
    if platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "zorivest")
    return os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share"), "zorivest")


def parse(command: str, argv: Sequence[str], environ: Mapping[str, str] | None = None) -> Settings:
    """ConfigError names the flag or variable and what it may be."""
    environ = os.environ if environ is None else environ
    given: dict[str, Any] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        option = _option(flag)
        if option is None or command not in option.commands:
            raise ConfigError(flag, f"unknown option of {command}{_nearest(flag, command)}")
        if option.kind is bool and not equals:
            given[option.name] = True
            continue
        if not equals:
            if not words:
                raise ConfigError(flag, "a value is missing")
            value = words.pop(0)
        converted = _convert(option, value, flag)
        given[option.name] = (*given.get(option.name, ()), *converted) if option.kind is list else converted
    by_flag = set(given)
    data_dir = given.get("data_dir") or environ.get("ZORIVEST_DATA_DIR")
    place = os.path.abspath(os.path.expanduser(data_dir)) if data_dir else None
    found = find(given.get("config") or environ.get("ZORIVEST_CONFIG"), environ, place, default_data_dir(environ))
    known = _options_in(found.file) if found.file else {}
    for option in OPTIONS:
        value = environ.get(option.variable, "")
        if option.of_profile and option.kind is list and value:
            given[option.name] = (*_convert(option, value, option.variable), *given.get(option.name, ()))
        elif option.name not in given:
            otherwise = known.get(option.name, option.default)
            given[option.name] = _convert(option, value, option.variable) if value else otherwise
    given["data_dir"] = os.path.abspath(os.path.expanduser(given["data_dir"] or default_data_dir(environ)))
    return Settings(
        command=command,
        toolsets_by_variable="toolsets" not in by_flag and bool(environ.get("ZORIVEST_TOOLSETS")),
        inside_claude_code=environ.get("CLAUDECODE") == "1",
        client_id=environ.get("ZORIVEST_CLIENT_ID") or None,
        telemetry=environ.get("ZORIVEST_TELEMETRY") or None,
        telemetry_content=environ.get("ZORIVEST_TELEMETRY_CAPTURE_CONTENT") == "1",
        tenant_sources=_tenant_sources(by_flag, environ),
        file=found.file,
        untrusted=found.untrusted,
        trust_dir=found.trust_dir,
        **_read_secrets(environ),
        **given,
    )


def _read_secrets(environ: Mapping[str, str]) -> dict[str, Any]:
    return {
        "api_key": environ.get("ZORIVEST_API_KEY") or None,
        "devtools_key": environ.get("ZORIVEST_DEVTOOLS_KEY") or None,
    }


def _tenant_sources(by_flag: set[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Set but empty counts as present, so that one client is never served where several were meant."""
    named = ("--tenants-file",) if "tenants_file" in by_flag else ()
    return (*named, *(name for name in ("ZORIVEST_TENANTS_FILE", "CLIENTS_CONFIG") if name in environ))


def is_switch(flag: str) -> bool:
    """Whether a flag stands alone; one that is not known takes a value."""
    option = _option(flag)
    return option is not None and option.kind is bool


def _option(flag: str) -> Option | None:
    return _BY_NAME.get(flag[2:].replace("-", "_")) if flag.startswith("--") else None


_OPTION_TABLES: Final = ("server", "tenancy", "devtools")
TABLES: Final = ("profiles", *_OPTION_TABLES)
# They choose the file, and what of it counts; and tenancy is switched on by the operator, never by a file found here.
_NOT_IN_A_FILE: Final = ("config", "profile", "tenants_file")


def _options_in(file: ConfigFile) -> dict[str, Any]:
    """The options of `[server]`, and of the top level, where files of earlier releases have them.

    Those of another command are taken as well and not looked at. Every problem is told, not the first alone."""
    problems: list[Problem] = []
    known: dict[str, Any] = {}
    top = {key: value for key, value in file.document.items() if key not in TABLES}
    for name, table in (("", top), *((name, file.document.get(name, {})) for name in _OPTION_TABLES)):
        prefix = name and f"{name}."
        if not isinstance(table, dict):
            problems.append(Problem(name, f"expected table, found {type_name(table)}"))
            continue
        options = {each.key: each for each in OPTIONS if _stands_in(each, name)}
        for key, value in table.items():
            option = options.get(key.replace("-", "_"))
            if option is None:
                names = [*options, *(() if prefix else TABLES)]
                problems.append(Problem(prefix + key, f"unknown key{nearest_key(key.replace('-', '_'), names)}"))
                continue
            problem = _problem_with(option, value)
            if problem is None:
                text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
                known[option.name] = _convert(option, text, prefix + key)
            else:
                problems.append(Problem(prefix + key, problem))
    profiles = file.document.get("profiles", {})
    if not isinstance(profiles, dict):
        problems.append(Problem("profiles", f"expected table, found {type_name(profiles)}"))
    if problems:
        raise ConfigFileRefused(file.path, problems, file.document)
    return known


def _stands_in(option: Option, table: str) -> bool:
    """Whether the file may have the option in this table; the options of earlier releases stand at its top, too."""
    if option.name in _NOT_IN_A_FILE or option.of_profile:
        return False
    return option.table == table.removeprefix("server")


def _problem_with(option: Option, value: Any) -> str | None:
    """What is wrong with a value of the file; a number or a switch may be written as a text, too."""
    if isinstance(value, list) and option.kind in (list, str):
        wrong = next((each for each in value if not isinstance(each, str)), None)
        return None if wrong is None else f"expected string, found {type_name(wrong)}"
    if isinstance(value, dict | list) or (option.kind is int and isinstance(value, bool | float)):
        return f"expected {_TYPES[option.kind]}, found {type_name(value)}"
    if option.kind is int and isinstance(value, int) and value < 0:
        return f"must not be negative, found {value}"
    if option.choices and value not in option.choices:
        return f'must be one of {", ".join(option.choices)}, found "{value}"'
    try:
        _convert(option, str(value), "")
    except ConfigError:
        return f"expected {_TYPES[option.kind]}, found {type_name(value)}"
    return None


_TYPES: Final = {int: "integer", bool: "boolean", str: "string", list: "array"}


def type_name(value: Any) -> str:
    """The TOML name of a value's type."""
    names = {bool: "boolean", int: "integer", float: "float", str: "string", list: "array", dict: "table"}
    return names.get(type(value), "date or time")


def _convert(option: Option, value: str, source: str) -> Any:
    if option.kind is int:
        if not value.isascii() or not value.isdigit():
            raise ConfigError(source, f"{value!r} is not a whole number")
        number = int(value)
        if option.bounds and not option.bounds[0] <= number <= option.bounds[1]:
            low, high = option.bounds
            raise ConfigError(source, f"must be between {low} and {high}, found {number}")
        return number
    if option.kind is bool:
        if value.lower() not in ("1", "true", "yes", "on", "0", "false", "no", "off"):
            raise ConfigError(source, f"{value!r} is neither yes nor no")
        return value.lower() in ("1", "true", "yes", "on")
    if option.choices and value not in option.choices:
        raise ConfigError(source, f"{value!r} is not one of {', '.join(option.choices)}")
    return tuple(part.strip() for part in value.split(",") if part.strip()) if option.kind is list else value


# The nearest option to --deny-tool would be --approve-tool.
_OF_A_PROFILE_ALONE: Final = ("deny_tool", "confirm_destructive", "confirmation_channel", "pin", "max_upstream_tools")


def _nearest(flag: str, command: str) -> str:
    key = flag.removeprefix("--").replace("-", "_")
    if key in _OF_A_PROFILE_ALONE:
        return f"; {key} is a key of a profile in the configuration file"
    from difflib import get_close_matches

    close = get_close_matches(flag, [option.flag for option in OPTIONS if command in option.commands], 1)
    return f"; did you mean {close[0]}?" if close else f"; see zorivest-rpc {command} --help"


def usage(command: str) -> str:
    lines = [f"usage: zorivest-rpc {command} [options]", ""]
    for option in OPTIONS:
        if command in option.commands:
            value = "" if option.kind is bool else " " + ("|".join(option.choices) or option.kind.__name__.upper())
            shown = ",".join(option.default) if option.kind is list else option.default
            default = "" if option.default in (None, False, ()) else f" (default {shown})"
            lines += [f"  {option.flag}{value}", f"      {option.help}{default}; variable {option.variable}"]
    return "\n".join(lines)
