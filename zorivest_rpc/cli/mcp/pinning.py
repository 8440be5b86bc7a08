"""`zorivest-rpc mcp pin`: trust in the configuration file of the working directory, given by a person who saw it."""

from __future__ import annotations

import os
import sys
from typing import Any

from zorivest_rpc.cli.mcp.listing import built_in_names
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import ConfigFile, trust
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, load_profile
from zorivest_rpc.gateway.errors import plain_text
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values

__all__ = ["run_pin"]

_SHOWN = 200  # characters of a value


def run_pin(argv: list[str]) -> int:
    """Exit code 0 pinned or nothing to pin, 1 not agreed to, 2 misused or a wrong file."""
    words = Words(argv, flags=(), switches=("--json", "--yes"))
    if words.words:
        raise ConfigError("mcp pin", f"takes no word, found {words.words[0]!r}")
    settings = parse("mcp", words.options)
    if settings.untrusted is None or settings.trust_dir is None:
        return _tell(words.json, {"status": "nothing", "file": None}, "nothing to pin: no untrusted file here")
    # Named, it is judged whole before it is trusted; what is shown and what is trusted are the same bytes.
    judged = parse("mcp", [*words.options, "--config", settings.untrusted])
    file = judged.file
    assert file is not None
    profile = load_profile(judged._replace(profile=None), built_in_names())
    if not words.json:
        print("\n".join(describe(file)))
    if "--yes" not in words.switches and not _agrees(file.path):
        return _tell(words.json, {"status": "declined", "file": file.path}, "nothing was pinned", code=1)
    trust(file.path, file.sha256, settings.trust_dir)
    _record(settings, profile)
    facts = {"status": "pinned", "file": file.path, "sha256": file.sha256}
    return _tell(words.json, facts, f"pinned {file.path}; a changed file has to be pinned again")


def describe(file: ConfigFile) -> list[str]:
    """What the file would change, one value on a line, without what could hide something on a terminal."""
    lines = [f"{file.path} sets:"]
    stack: list[tuple[str, Any]] = list(reversed(file.document.items()))
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value:
            stack += [(f"{path}.{key}", inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            stack += [(f"{path}[{place}]", inner) for place, inner in reversed(list(enumerate(value)))]
        else:
            lines.append(f"  {plain_text(path, _SHOWN)} = {plain_text(repr(value), _SHOWN)}")
    return lines


def _agrees(path: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("mcp pin", "look at the file and run it at a terminal, or with --yes")
    print(f"Trust {path} as it is now? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _record(settings: Settings, profile: Profile) -> None:
    telemetry = Telemetry(
        settings.telemetry,
        Redactor(secret_values(profile, os.environ)),
        capture_content=settings.telemetry_content,
    )
    telemetry.emit("mcp.pin.accepted")


def _tell(as_json: bool, facts: dict[str, Any], text: str, *, code: int = 0) -> int:
    if as_json:
        from zorivest_rpc.cli.terminal import print_json

        print_json({"schema": "zorivest.mcp.pin.v1", **facts})
    else:
        print(text)
    return code
