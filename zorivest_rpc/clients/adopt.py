"""A client's entry for another MCP server as one of our profile, without a secret that stands in it.

Our entries have no place for a value that is secret: they name a variable, and the user is told which one to set. What
cannot be said so is left out with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from zorivest_rpc.clients.entries import launch_of

__all__ = ["Adopted", "adopt_entry", "adoptable_name"]

_REFERENCE: Final = re.compile(
    r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|(?<!\S)\$([A-Za-z_][A-Za-z0-9_]*)(?!\S)"
)
_BEARER: Final = re.compile(r"bearer\s+(.*)", re.IGNORECASE | re.DOTALL)
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential|signature|\bsig\b|\bpat\b", re.IGNORECASE)
_SECRET_VALUE: Final = re.compile(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{8,}|\bgh[opsru]_\w{8,}|github_pat_|\bxox[abprs]-|\bAKIA[0-9A-Z]{8,}|\bglpat-"
    r"|\beyJ[\w-]{8,}\.|\bzrv_sk_|\bAIza[\w-]{10,}|(?i:bearer\s)\S|://[^/\s:@]*:[^/\s@]+@"
)
# What stands in the path of an address and is not for reading: a run of letters and digits, or a UUID.
_RANDOM: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_NOT_OURS_TO_SET: Final = re.compile(r"(?i)host|mcp-.*|connection|content-.*|accept|cookie")
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


def _keep_limits(made: Adopted, entry: dict[str, Any], raw: Mapping[str, Any]) -> Adopted:
    """What the user lets this server do in the client, it may do here, and no more."""
    if raw.get("disabled") is True or raw.get("enabled") is False:
        entry["enabled"] = False
    for key in ("includeTools", "enabled_tools"):
        if isinstance(named := raw.get(key), list):
            entry["tool_allowlist"] = [str(each) for each in named]
    left_out = [str(each) for key in ("excludeTools", "disabled_tools") for each in raw.get(key) or () if each]
    if not left_out:
        return made
    names = ", ".join(left_out)
    note = f"the client leaves out its tools {names}; name them in deny_tool, or the others in tool_allowlist"
    return made._replace(notes=(*made.notes, note))


def _local(name: str, command: tuple[str, ...], raw: Mapping[str, Any]) -> Adopted:
    for word in command:
        if _REFERENCE.search(word) or "${" in word:
            return Adopted(name, None, "its command refers to variables of the client, which are not filled in here")
    if _holds_secret(command):
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
    passed = raw.get("env_vars")
    named = [str(each) for each in passed] if isinstance(passed, list) else []
    names = [each for each in dict.fromkeys((*values, *named)) if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", each)]
    if names:
        entry["env_pass"] = names
    # A reference to the variable itself needs nothing but the variable, which the client had to be given as well.
    variables = tuple((each, "its environment") for each in names)
    if raw.get("envFile"):
        notes.append("it reads a file of variables in the client, which is not read here")
    return Adopted(name, entry, variables=variables, notes=tuple(notes))


def _remote(name: str, url: str, raw: Mapping[str, Any]) -> Adopted:
    if "${" in url or _REFERENCE.search(url):
        return Adopted(name, None, "its URL refers to variables of the client, which are not filled in here")
    if _url_holds_secret(url):
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


def _holds_secret(command: tuple[str, ...]) -> bool:
    for word, following in zip(command, (*command[1:], ""), strict=True):
        if _SECRET_VALUE.search(word) or ("://" in word and _url_holds_secret(word)):
            return True
        flag, equals, _ = word.partition("=")
        is_named = bool(_SECRET_NAME.search(flag)) and (flag.startswith("-") or bool(equals))
        if is_named and (equals or (following and not following.startswith("-"))):
            return True
    return False


def _url_holds_secret(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True  # what cannot be read cannot be known to be harmless
    rest = f"{parts.path} {parts.query} {parts.fragment}"
    if "@" in parts.netloc or _SECRET_VALUE.search(url) or _RANDOM.search(rest) or _SECRET_NAME.search(parts.fragment):
        return True
    return any(_SECRET_NAME.search(key) for key, _ in parse_qsl(parts.query, keep_blank_values=True))
