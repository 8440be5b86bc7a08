"""Where each client keeps the file that lists its MCP servers, on each platform.

Pure: a platform, an environment and a home directory in, paths out; only `choose` looks at a disk."""

from __future__ import annotations

import glob
import ntpath
import os
import posixpath
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

__all__ = ["Place", "choose", "home_of", "locate", "places"]

When = Literal["always", "file", "directory"]


class _Join(Protocol):
    def __call__(self, first: str, /, *rest: str) -> str: ...


class Place(NamedTuple):
    """A path that counts always, only if the file is there, or only if the directory it names is (its path may then
    hold a `*`)."""

    path: str
    when: When = "always"
    directory: str = ""


def home_of(environ: Mapping[str, str], platform: str) -> str:
    """The user's directory; the account's own where the environment does not say."""
    named = environ.get("USERPROFILE" if platform == "win32" else "HOME")
    return named or os.path.expanduser("~")


def places(  # noqa: C901 - one branch for each client
    client: str, platform: str, environ: Mapping[str, str]
) -> tuple[Place, ...]:
    """The candidates, strongest first; the first that counts is the client's file."""
    join: _Join = ntpath.join if platform == "win32" else posixpath.join
    home = home_of(environ, platform)
    config = environ.get("XDG_CONFIG_HOME") or join(home, ".config")  # the XDG tools use it on every platform
    roaming = environ.get("APPDATA") or join(home, "AppData", "Roaming")
    local = environ.get("LOCALAPPDATA") or join(home, "AppData", "Local")
    support = {"win32": roaming, "darwin": join(home, "Library", "Application Support")}.get(platform, config)

    if client == "claude-code":
        return (Place(join(environ.get("CLAUDE_CONFIG_DIR") or home, ".claude.json")),)
    if client == "claude-desktop":
        usual = Place(join(support, "Claude", "claude_desktop_config.json"))
        if platform != "win32":
            return (usual,)
        # A packaged app does not see %APPDATA%: Windows shows it a directory of its own.
        package = join(local, "Packages", "Claude_*")
        packaged = join(package, "LocalCache", "Roaming", "Claude", "claude_desktop_config.json")
        return (Place(packaged, "directory", package), usual)
    if client == "cursor":
        return (Place(join(home, ".cursor", "mcp.json")),)
    if client == "vscode":
        return (Place(join(support, "Code", "User", "mcp.json")),)
    if client == "windsurf":
        return (Place(join(home, ".codeium", "windsurf", "mcp_config.json")),)
    if client == "gemini-cli":
        return (Place(join(home, ".gemini", "settings.json")),)
    if client == "codex":
        return (Place(join(environ.get("CODEX_HOME") or join(home, ".codex"), "config.toml")),)
    if client == "cline":
        return _cline(join, home, support, environ)
    if client == "opencode":
        directory = join(config, "opencode")
        return (Place(join(directory, "opencode.jsonc"), "file"), Place(join(directory, "opencode.json")))
    if client == "zed":
        directory = join(roaming, "Zed") if platform == "win32" else join(home, ".config", "zed")
        if platform not in ("win32", "darwin"):
            directory = join(config, "zed")
        return (Place(join(directory, "settings.json")),)
    raise ValueError(f"no client {client!r}")


def _cline(join: _Join, home: str, support: str, environ: Mapping[str, str]) -> tuple[Place, ...]:
    if named := environ.get("CLINE_MCP_SETTINGS_PATH"):
        return (Place(named),)
    data = environ.get("CLINE_DATA_DIR") or join(home, ".cline", "data")
    shared = join(data, "settings", "cline_mcp_settings.json")  # the CLI, and the extension since it shares with it
    storage = join(support, "Code", "User", "globalStorage", "saoudrizwan.claude-dev")
    older = join(storage, "settings", "cline_mcp_settings.json")
    return (Place(shared, "file"), Place(older, "file"), Place(shared))


def choose(candidates: tuple[Place, ...]) -> str:
    """The first candidate that counts on this machine."""
    for place in candidates:
        if place.when == "always" or (place.when == "file" and os.path.isfile(place.path)):
            return place.path
        if place.when == "directory":
            found = sorted(filter(os.path.isdir, glob.glob(place.directory)))
            if found:
                return found[0] + place.path[len(place.directory) :]
    raise ValueError("the last place must count always")


def locate(client: str, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The client's file on this machine; it need not exist."""
    return choose(places(client, platform, environ))
