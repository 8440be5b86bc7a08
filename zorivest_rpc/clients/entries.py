"""What an entry for this server is in each client's file: under which keys, in which shape, over which transport.

A key is never part of an entry. Where a server asks for one, the entry names the variable that holds it, in the
client's own notation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from zorivest_rpc.errors import ConfigError

__all__ = [
    "CLIENTS",
    "KEY_VARIABLE",
    "OWNED",
    "Client",
    "Launch",
    "find_client",
    "is_our_command",
    "is_ours",
    "launch_of",
    "shape_for",
]

KEY_VARIABLE = "ZORIVEST_API_KEY"
_REMOTE_KEYS = ("url", "serverUrl", "httpUrl", "headers", "http_headers", "bearer_token_env_var")
OWNED = frozenset(("type", "transport", "command", "args", "env_vars", *_REMOTE_KEYS))

Entry = dict[str, Any]


class Launch(NamedTuple):
    """How the client reaches us: a command it starts, or a URL; `keyed` if the other side asks for a key."""

    command: tuple[str, ...] = ()
    url: str = ""
    keyed: bool = False


class Client(NamedTuple):
    """`keys` lead to the object that holds the servers; `restart` tells how the client takes up a change."""

    id: str
    title: str
    keys: tuple[str, ...]
    entry: Callable[[Launch], Entry]
    restart: str
    aliases: tuple[str, ...] = ()
    toml: bool = False
    strict: bool = False  # it reads its file as plain JSON: a comment in it means no servers at all
    remote: str = "yes"  # or why `--http` cannot be written for it
    keyed_remote: str = "yes"  # or why the key cannot be referred to

    @property
    def container(self) -> str:
        return ".".join(self.keys)


def _plain(launch: Launch) -> Entry:
    return {"command": launch.command[0], "args": list(launch.command[1:])}


def _bearer(launch: Launch, reference: str) -> Entry:
    return {"headers": {"Authorization": f"Bearer {reference}"}} if launch.keyed else {}


def _claude_code(launch: Launch) -> Entry:
    if launch.url:  # without the default an unset variable would make the whole file unreadable to it
        return {"type": "http", "url": launch.url, **_bearer(launch, f"${{{KEY_VARIABLE}:-}}")}
    return {"type": "stdio", **_plain(launch)}


def _claude_desktop(launch: Launch) -> Entry:
    return _plain(launch)


def _cursor(launch: Launch) -> Entry:
    return {"url": launch.url, **_bearer(launch, f"${{env:{KEY_VARIABLE}}}")} if launch.url else _plain(launch)


def _vscode(launch: Launch) -> Entry:
    if launch.url:
        return {"type": "http", "url": launch.url, **_bearer(launch, f"${{env:{KEY_VARIABLE}}}")}
    return {"type": "stdio", **_plain(launch)}


def _windsurf(launch: Launch) -> Entry:
    return {"serverUrl": launch.url, **_bearer(launch, f"${{env:{KEY_VARIABLE}}}")} if launch.url else _plain(launch)


def _gemini(launch: Launch) -> Entry:
    return {"httpUrl": launch.url, **_bearer(launch, f"${{{KEY_VARIABLE}}}")} if launch.url else _plain(launch)


def _codex(launch: Launch) -> Entry:
    if launch.url:
        return {"url": launch.url, **({"bearer_token_env_var": KEY_VARIABLE} if launch.keyed else {})}
    # It hands its servers a short list of variables; the key has to be named.
    return {**_plain(launch), **({"env_vars": [KEY_VARIABLE]} if launch.keyed else {})}


def _cline(launch: Launch) -> Entry:
    if launch.url:
        return {"type": "streamableHttp", "url": launch.url, **_bearer(launch, f"${{env:{KEY_VARIABLE}}}")}
    return _plain(launch)


def _opencode(launch: Launch) -> Entry:
    return {**_opencode_2(launch), "enabled": True}


def _opencode_2(launch: Launch) -> Entry:
    if launch.url:
        return {"type": "remote", "url": launch.url, **_bearer(launch, f"{{env:{KEY_VARIABLE}}}")}
    return {"type": "local", "command": list(launch.command)}


def _zed(launch: Launch) -> Entry:
    return {"url": launch.url} if launch.url else _plain(launch)


_SERVERS = ("mcpServers",)
CLIENTS: tuple[Client, ...] = (
    Client(
        "claude-code",
        "Claude Code",
        _SERVERS,
        _claude_code,
        "Start a new session of claude; /mcp shows it.",
        ("claude",),
        strict=True,
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        _SERVERS,
        _claude_desktop,
        "Quit Claude Desktop and open it again.",
        strict=True,
        remote="its file lists local servers only. Add the URL in the app (Settings, Connectors), or leave --http out",
    ),
    Client("cursor", "Cursor", _SERVERS, _cursor, "Cursor takes it up by itself; see Settings, MCP."),
    Client(
        "vscode",
        "VS Code",
        ("servers",),
        _vscode,
        'Start it with "MCP: List Servers" in the command palette.',
        ("vs-code", "visual-studio-code", "code", "copilot"),
    ),
    Client("windsurf", "Windsurf", _SERVERS, _windsurf, "Press refresh in Cascade's MCP panel."),
    Client("gemini-cli", "Gemini CLI", _SERVERS, _gemini, "Start gemini again; /mcp shows it.", ("gemini",)),
    Client("codex", "Codex", ("mcp_servers",), _codex, "Start codex again; /mcp shows it.", ("codex-cli",), toml=True),
    Client("cline", "Cline", _SERVERS, _cline, "Cline takes it up by itself; see its MCP Servers panel.", strict=True),
    Client("opencode", "opencode", ("mcp",), _opencode, "Start opencode again.", ("open-code",)),
    Client(
        "zed",
        "Zed",
        ("context_servers",),
        _zed,
        "Zed takes it up by itself; see Settings, AI, MCP Servers.",
        keyed_remote="its settings cannot refer to a variable. Leave --http out, or serve with --no-auth on this "
        "machine and pass --no-auth here too",
    ),
)


def find_client(name: str) -> Client:
    """By id or alias; ConfigError names the nearest."""
    wanted = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    for client in CLIENTS:
        if wanted in (client.id, *client.aliases) or wanted.replace("-", "") == client.id.replace("-", ""):
            return client
    from difflib import get_close_matches

    ids = {each: client.id for client in CLIENTS for each in (client.id, *client.aliases)}
    close = get_close_matches(wanted, ids, 1, 0.5)
    hint = f"did you mean {ids[close[0]]}?" if close else f"known are {', '.join(client.id for client in CLIENTS)}"
    raise ConfigError("CLIENT", f"no client {name[:40]!r}; {hint}")


def shape_for(client: Client, document: Mapping[str, Any]) -> Client:
    """The client as this very file has it: opencode's second version moved its servers one level down."""
    if client.id == "opencode":
        servers = document.get("mcp")
        inner = servers.get("servers") if isinstance(servers, Mapping) else None
        if isinstance(inner, Mapping) and not isinstance(inner.get("type"), str):
            return client._replace(keys=("mcp", "servers"), entry=_opencode_2)
    return client


def launch_of(entry: Any) -> Launch | None:
    """How an entry reaches its server, whichever client wrote it; None if it is not an entry at all."""
    if not isinstance(entry, Mapping):
        return None
    for key in ("url", "httpUrl", "serverUrl"):
        if isinstance(entry.get(key), str):
            return Launch(url=entry[key])
    command, arguments = entry.get("command"), entry.get("args", [])
    words = command if isinstance(command, list) else [command, *(arguments if isinstance(arguments, list) else [])]
    if not words or not all(isinstance(word, str) and word for word in words[:1]):
        return None
    return Launch(tuple(word if isinstance(word, str) else json.dumps(word) for word in words))


def is_ours(entry: Any) -> bool:
    """An entry that starts this program, or names a URL under our name; anything else belongs to another program."""
    launch = launch_of(entry)
    if launch is None:
        return False
    words = launch.command  # a launcher (uvx, a container) may stand in front
    return bool(launch.url) or any(_program(word) == "zorivest-rpc" or word == "zorivest_rpc" for word in words)


def is_our_command(command: Sequence[str]) -> bool:
    """A command that starts this program and nothing else, so that it can be tried out."""
    return _program(command[0]) == "zorivest-rpc" or tuple(command[1:3]) == ("-m", "zorivest_rpc")


def _program(word: str) -> str:
    """Of a path, a package with its version, or an image with its tag."""
    return re.split(r"[@:=<>~!\[]", re.split(r"[\\/]", word)[-1].lower())[0].removesuffix(".exe")
