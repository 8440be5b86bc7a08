"""A client's entry for another MCP server as one of our profile, without a secret that stands in it.

Our entries have no place for a value that is secret: they name a variable, and the user is told which one to set. What
cannot be said so is left out with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from zorivest_rpc.clients.entries import launch_of
from zorivest_rpc.clients.inline_secrets import command_holds_secret, url_holds_secret

__all__ = ["Adopted", "adopt_entry", "adoptable_name", "list_switched_off"]

_REFERENCE: Final = re.compile(
    r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|(?<!\S)\$([A-Za-z_][A-Za-z0-9_]*)(?!\S)"
)
_BEARER: Final = re.compile(r"bearer\s+(.*)", re.IGNORECASE | re.DOTALL)
_NOT_OURS_TO_SET: Final = re.compile(r"(?i)host|mcp-.*|connection|content-.*|accept|cookie")
_NOT_TAKEN_OVER: Final = {
    "headersHelper": "a program of the client gives its headers, which is not run here",
    "oauth": "the client signs in to it with OAuth, which is not taken over",
    "auth": "the client signs in to it with OAuth, which is not taken over",
}
_WEEK: Final = 604_800
_PLAIN_NAME: Final = re.compile(r"[^a-z0-9_-]+")


class Adopted(NamedTuple):
    """`entry` for the profile, or the `reason` why there is none; `variables` have to be set, each with what for."""

    name: str
    entry: dict[str, Any] | None
    reason: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def adoptable_name(name: str) -> str:
    """A client's name for a server in the characters of ours: `My Server` becomes `my-server`."""
    plain = re.sub(r"_{2,}", "_", _PLAIN_NAME.sub("-", name.lower()))
    return plain.strip("-_")[:24].strip("-_")


def adopt_entry(name: str, raw: Any) -> Adopted:
    """One entry as whichever client wrote it."""
    plain = adoptable_name(name)
    launch = launch_of(raw)
    if not plain:
        return Adopted(name, None, "its name has no letter or digit that could be kept")
    if launch is None or not isinstance(raw, Mapping):
        return Adopted(plain, None, "it names neither a command nor a URL")
    if str(raw.get("type", raw.get("transport", ""))).lower() == "sse":
        return Adopted(plain, None, "it uses the HTTP+SSE transport of 2024, which is not supported for other servers")
    made = _remote(plain, launch.url, raw) if launch.url else _local(plain, launch.command, raw)
    return made if made.entry is None else _keep_limits(made, made.entry, raw)


def list_switched_off(names: Iterable[str], document: Mapping[str, Any], project: Any = None) -> frozenset[str]:
    """The servers that are switched off beside their entries: in Gemini CLI's `mcp`, in a project of Claude Code."""
    rules = document.get("mcp")
    excluded, allowed = _read_names(rules, "excluded"), _read_names(rules, "allowed")
    off = {*(excluded or ()), *(_read_names(project, "disabledMcpServers") or ())}
    return frozenset(name for name in names if name in off or (allowed is not None and name not in allowed))


def _read_names(table: Any, key: str) -> list[Any] | None:
    value = table.get(key) if isinstance(table, Mapping) else None
    return value if isinstance(value, list) else None


def _keep_limits(made: Adopted, entry: dict[str, Any], raw: Mapping[str, Any]) -> Adopted:
    """What the user lets this server do in the client, it may do here, and no more."""
    if raw.get("disabled") is True or raw.get("enabled") is False:
        entry["enabled"] = False
    left_out = [*_tools(raw.get("excludeTools")), *_tools(raw.get("disabled_tools"))]
    for key in ("includeTools", "enabled_tools"):
        if isinstance(named := raw.get(key), list):
            entry["tool_allowlist"] = [tool for tool in _tools(named) if tool not in left_out]
    for key, ours, most in (
        ("startup_timeout_sec", "timeout_secs", 300),
        ("tool_timeout_sec", "call_timeout_secs", 3600),
    ):
        if isinstance(seconds := raw.get(key), (int, float)) and 0 < seconds < _WEEK:
            entry[ours] = min(most, math.ceil(seconds))
    notes = [note for key, note in _NOT_TAKEN_OVER.items() if raw.get(key)]
    if left_out and "tool_allowlist" not in entry:
        names = ", ".join(left_out)
        advice = "name them in deny_tool, or the others in tool_allowlist"
        notes.append(f"the client leaves out its tools {names}; {advice}")
    return made._replace(notes=(*made.notes, *notes))


def _tools(named: Any) -> list[str]:
    """Gemini CLI lets a tool be named with its arguments."""
    tools = [str(each).partition("(")[0].strip() for each in named] if isinstance(named, list) else []
    return [tool for tool in tools if tool]


def _local(name: str, command: tuple[str, ...], raw: Mapping[str, Any]) -> Adopted:
    for word in command:
        if _REFERENCE.search(word) or "${" in word:
            return Adopted(name, None, "its command refers to variables of the client, which are not filled in here")
    if command_holds_secret(command):
        return Adopted(name, None, "an argument of its command holds a secret; give it by a variable instead")
    entry: dict[str, Any] = {"name": name, "command": command[0]}
    if command[1:]:
        entry["args"] = list(command[1:])
    notes: list[str] = []
    if isinstance(raw.get("cwd"), str) and raw["cwd"]:
        if "${" in raw["cwd"]:
            notes.append("its directory refers to variables of the client, and was left out")
        else:
            entry["cwd"] = raw["cwd"]
    given = raw.get("env", raw.get("environment"))
    values = {str(key): value for key, value in given.items()} if isinstance(given, Mapping) else {}
    named = _variables_passed(raw.get("env_vars"))
    names = [each for each in dict.fromkeys((*values, *named)) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", each)]
    if names:
        entry["env_pass"] = names
    # A reference to the variable itself needs nothing but the variable, which the client had to be given as well.
    variables = tuple((each, "its environment") for each in names)
    if raw.get("envFile"):
        notes.append("it reads a file of variables in the client, which is not read here")
    return Adopted(name, entry, variables=variables, notes=tuple(notes))


def _variables_passed(passed: Any) -> list[str]:
    """Codex names a variable, or says in a table where it comes from; only those of this machine can be handed on."""
    names: list[str] = []
    for each in passed if isinstance(passed, list) else ():
        if isinstance(each, Mapping):
            if each.get("source", "local") == "local":
                names.append(str(each.get("name")))
        else:
            names.append(str(each))
    return names


def _remote(name: str, url: str, raw: Mapping[str, Any]) -> Adopted:
    if "${" in url or _REFERENCE.search(url):
        return Adopted(name, None, "its URL refers to variables of the client, which are not filled in here")
    if url_holds_secret(url):
        return Adopted(name, None, "its URL holds a secret, for which there is no variable")
    entry: dict[str, Any] = {"name": name, "endpoint": url}
    variables: list[tuple[str, str]] = []
    notes: list[str] = []
    headers: dict[str, str] = {}
    if isinstance(named := raw.get("bearer_token_env_var"), str):
        entry["auth_bearer_env"] = named
        variables.append((named, "its bearer token"))
    for header, value in _headers(raw):
        if header.lower() == "authorization":
            bearer = _BEARER.fullmatch(value.strip())
            if bearer is None:
                notes.append("its Authorization header is no bearer token, and was left out")
                continue
            entry["auth_bearer_env"] = _variable(bearer[1].strip(), f"{name}_token")
            variables.append((entry["auth_bearer_env"], "its bearer token"))
        elif _NOT_OURS_TO_SET.fullmatch(header):
            notes.append(f"its header {header} is not ours to set, and was left out")
        else:
            headers[header] = _variable(value.strip(), f"{name}_{header}")
            variables.append((headers[header], f"its header {header}"))
    for header, variable in _strings(raw.get("env_http_headers")):
        headers[header] = variable
        variables.append((variable, f"its header {header}"))
    if headers:
        entry["headers_env"] = headers
    return Adopted(name, entry, variables=tuple(dict.fromkeys(variables)), notes=tuple(notes))


def _headers(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [*_strings(raw.get("headers")), *_strings(raw.get("http_headers"))]


def _strings(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping):
        return []
    return [(str(key), inner) for key, inner in value.items() if isinstance(inner, str)]


def _variable(value: str, otherwise: str) -> str:
    """The variable that a value refers to; for a value that stands there itself, the name of one to set."""
    reference = _REFERENCE.fullmatch(value)
    if reference is not None:
        return reference[1] or reference[2] or reference[3]
    return re.sub(r"[^A-Z0-9]+", "_", otherwise.upper()).strip("_")
