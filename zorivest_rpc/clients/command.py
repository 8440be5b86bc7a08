"""The command line that a client should start us with: absolute, and without anything that must not be in a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError

__all__ = ["check_url", "own_command", "server_options", "starts_anywhere"]

KEY_MARK = "zrv_sk_"
_PATHS = ("--config", "--data-dir", "--import-root", "--log-file", "--toolset-config")


def own_command(argv0: str | None = None, executable: str | None = None) -> tuple[str, ...]:
    """The installed program if there is one (a link stays a link, so that an upgrade is followed), else the module."""
    script = sys.argv[0] if argv0 is None else argv0
    python = sys.executable if executable is None else executable
    suffix = ".exe" if os.name == "nt" else ""
    beside = os.path.join(os.path.dirname(os.path.abspath(python)), f"zorivest-rpc{suffix}")
    name = os.path.basename(script).removesuffix(".exe")
    for candidate in (script, script + suffix) if name == "zorivest-rpc" else ():
        if os.path.isabs(candidate) or os.sep in candidate:
            path = os.path.abspath(candidate)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return (path,)
    if os.path.isfile(beside) and os.access(beside, os.X_OK):
        return (beside,)
    return (os.path.abspath(python), "-m", "zorivest_rpc")


def starts_anywhere(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the module is found from any directory: a clone that was never installed is found from its own only."""
    if list(command[1:3]) != ["-m", "zorivest_rpc"]:
        return True
    import subprocess

    elsewhere = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    try:
        ran = subprocess.run(
            [command[0], "-P", "-c", "import zorivest_rpc"], env=elsewhere, capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def server_options(given: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The options that the server is started with: the given ones, and where the journal is if only a variable says so.

    Clients hand their servers few variables, and one that got lost would mean another, empty journal."""
    for word in given:
        if KEY_MARK in word:
            raise ConfigError("--", "a key does not belong into a configuration file; set ZORIVEST_API_KEY instead")
    settings = parse("stdio", given, {})
    for flag, value in _values(given):
        if flag in _PATHS and not os.path.isabs(value):
            raise ConfigError(
                flag, f"{value!r} must be absolute: a client starts its servers in a directory of its own"
            )
    options = list(given)
    if not settings.config and (file := environ.get("ZORIVEST_CONFIG")):
        options += ["--config", os.path.abspath(file)]
        settings = parse("stdio", options, {})
    url = settings.api_url or environ.get("ZORIVEST_API_URL")
    if url:
        check_url(url, "--api-url")
    if url and not settings.api_url:
        options += ["--api-url", url]
    moved = environ.get("ZORIVEST_DATA_DIR") or environ.get("XDG_DATA_HOME")
    if moved and not url and not any(flag == "--data-dir" for flag, _ in _values(given)):
        options += ["--data-dir", parse("stdio", options, environ).data_dir]
    return tuple(options)


def _values(words: Sequence[str]) -> list[tuple[str, str]]:
    """Flags with what follows them, which is their value unless they are switches."""
    pairs = []
    for word, following in zip(words, [*words, ""][1:], strict=True):
        flag, equals, value = word.partition("=")
        if flag.startswith("--"):
            pairs.append((flag, value if equals else following))
    return pairs


def check_url(url: str, source: str) -> str:
    """An http address without credentials."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ConfigError(source, "must be an http or https URL, such as http://127.0.0.1:8766/mcp")
    if parts.username is not None or KEY_MARK in url:
        raise ConfigError(source, "a key does not belong into a configuration file; set ZORIVEST_API_KEY instead")
    return url
