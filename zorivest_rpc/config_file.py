"""The configuration file: where it is, what stands in it, and whether its author is trusted.

The first of these counts: the one that `--config` or `ZORIVEST_CONFIG` names, `.zorivest/config.toml` in the working
directory, `zorivest/config.toml` in the user's configuration directory. The second may come with a repository that
another person wrote: until the user has pinned its very bytes nothing in it counts, not even that it stands before
the user's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zorivest_rpc.errors import ConfigError

__all__ = [
    "TRUST_FILE",
    "ConfigFile",
    "ConfigFileRefused",
    "Found",
    "Problem",
    "edit_distance",
    "find",
    "is_trusted",
    "keep_parsed",
    "nearest_key",
    "own_path",
    "parse_toml",
    "read",
    "trust",
]

TRUST_FILE: Final = "trusted-configs.json"
_PARSED_FILE: Final = "parsed-config.json"
_LOCAL: Final = os.path.join(".zorivest", "config.toml")
_LARGEST: Final = 4 * 1024 * 1024
_MARK: Final = b"\xef\xbb\xbf"  # the byte order mark that some editors put in front of UTF-8
_NEAR: Final = 2  # letters that may differ for a key to be proposed


class Problem(NamedTuple):
    """What is wrong, and where in the file: `profiles.default.mcp_servers[0].endpoint`, or nothing for all of it."""

    path: str
    message: str


class ConfigFileRefused(ConfigError):
    """Everything that is wrong with one file, a line each; `document` is what could be read of it."""

    def __init__(self, file: str, problems: list[Problem], document: Mapping[str, Any] | None = None) -> None:
        self.file = file
        self.problems = problems
        self.document = document
        super().__init__(file, "; ".join(message for _, message in problems))

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        lines = (": ".join(part for part in (self.file, *problem) if part) for problem in self.problems)
        return [line if line.isprintable() else _escape(line) for line in lines]


def _escape(text: str) -> str:
    """What a file says is repeated on a terminal, and a file may have come with a repository."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class ConfigFile(NamedTuple):
    """A file that was read: its tables, and the bytes they came from."""

    path: str
    document: dict[str, Any]
    data: bytes

    @property
    def sha256(self) -> str:
        """On demand: importing hashlib costs a start 2 ms, and only trust and pins ask for it."""
        return _hash(self.data)


class Found(NamedTuple):
    """The file that counts, and one in the working directory that does not because the user has not pinned it."""

    file: ConfigFile | None
    untrusted: str | None = None
    trust_dir: str | None = None  # where trust in the one of the working directory is remembered, where there is one


def own_path(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The file in the configuration directory of this user."""
    if platform == "win32":
        import ntpath

        home = environ.get("USERPROFILE") or os.path.expanduser("~")
        return ntpath.join(environ.get("APPDATA") or ntpath.join(home, "AppData", "Roaming"), "zorivest", "config.toml")
    home = environ.get("HOME") or os.path.expanduser("~")
    directory = os.path.join(home, "Library", "Application Support") if platform == "darwin" else ""
    directory = directory or environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    return os.path.join(directory, "zorivest", "config.toml")


def find(named: str | None, environ: Mapping[str, str], data_dir: str | None, default_data_dir: str) -> Found:
    """The file that counts. ConfigFileRefused if it cannot be read; an untrusted one is not even judged.

    `data_dir` is the directory that a flag or variable names. What is remembered of trust lies in the directory that
    is used without the file in question, so that no file can bring the proof of its own trust along."""
    parsed = data_dir or default_data_dir
    if named:
        return Found(_read_or_recall(named, parsed))
    own = own_path(environ)
    local = _local_path()
    if local is None or not os.path.isfile(local):
        return Found(_read_or_recall(own, parsed) if os.path.isfile(own) else None)
    mine = _read_or_recall(own, parsed) if os.path.isfile(own) else None
    directory = data_dir or _data_dir_in(mine) or default_data_dir
    try:
        theirs = _bytes(local)
    except ConfigError:
        return Found(mine, local, directory)
    if not is_trusted(local, _hash(theirs), directory):
        return Found(mine, local, directory)
    return Found(parse_toml(local, theirs), None, directory)


def read(path: str) -> ConfigFile:
    """The file's tables; ConfigFileRefused says where it is not TOML."""
    return parse_toml(path, _bytes(path))


def keep_parsed(file: ConfigFile, data_dir: str) -> None:
    """Keep the tables of these bytes for the next start; a directory that takes no file costs that start 3 ms."""
    import msgspec

    from zorivest_rpc.private_files import write_private

    store = os.path.join(data_dir, _PARSED_FILE)
    try:
        kept = msgspec.json.encode({"source": file.data.decode(), "document": file.document})
        if msgspec.json.decode(kept)["document"] != file.document:  # a date, which JSON has no type for
            return
        if not os.path.isfile(store) or _bytes(store) != kept:
            write_private(store, kept)
    except (OSError, ValueError, TypeError, ConfigError):
        return


def _read_or_recall(path: str, data_dir: str) -> ConfigFile:
    """The file's tables; those of the last start where its bytes are the same, because tomllib costs a start 3 ms.

    What is kept lies beside the journal's keys: who can write there needs no configuration."""
    data = _bytes(path)
    try:
        with open(os.path.join(data_dir, _PARSED_FILE), "rb") as file:
            kept = file.read(4 * _LARGEST)
    except OSError:
        return parse_toml(path, data)
    import msgspec

    try:
        said = msgspec.json.decode(kept)
        if said["source"].encode() == data and isinstance(said["document"], dict):
            return ConfigFile(path, said["document"], data)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    return parse_toml(path, data)


def is_trusted(path: str, sha256: str, data_dir: str) -> bool:
    """Whether the user has pinned this file with this content."""
    return _read_trusted(data_dir).get(os.path.realpath(path)) == sha256


def trust(path: str, sha256: str, data_dir: str) -> None:
    """Remember that the user has looked at this file and takes what it says."""
    import json

    from zorivest_rpc.private_files import alone, write_private

    store = os.path.join(data_dir, TRUST_FILE)
    with alone(store):
        known = {**_read_trusted(data_dir), os.path.realpath(path): sha256}
        write_private(store, json.dumps(known, indent=2, sort_keys=True).encode() + b"\n")


def nearest_key(key: str, known: list[str]) -> str:
    """`; did you mean "…"?` where a known key is at most two letters away."""
    best = min(((edit_distance(key, other), other) for other in known), default=(_NEAR + 1, ""))
    return f'; did you mean "{best[1]}"?' if best[0] <= _NEAR else ""


def edit_distance(left: str, right: str) -> int:
    """Letters to add, drop or replace; more than two is told as three, because no caller asks further."""
    if abs(len(left) - len(right)) > _NEAR:
        return _NEAR + 1
    row = list(range(len(right) + 1))
    for position, letter in enumerate(left, 1):
        above, row = row, [position]
        for index, other in enumerate(right):
            row.append(min(above[index] + (letter != other), above[index + 1] + 1, row[index] + 1))
        if min(row) > _NEAR:
            return _NEAR + 1
    return row[-1]


def _local_path() -> str | None:
    try:
        return os.path.join(os.getcwd(), _LOCAL)
    except OSError:  # the directory was removed under us
        return None


def _data_dir_in(file: ConfigFile | None) -> str | None:
    """What the user's own file says of the data directory, as `config.parse` reads it."""
    if file is None:
        return None
    server = file.document.get("server")
    tables = (server if isinstance(server, dict) else {}, file.document)
    for table in tables:
        for key in ("data_dir", "data-dir"):
            named = table.get(key)
            if isinstance(named, str) and named:
                return os.path.abspath(os.path.expanduser(named))
    return None


def _read_trusted(data_dir: str) -> dict[str, str]:
    import json

    try:
        with open(os.path.join(data_dir, TRUST_FILE), "rb") as file:
            known = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return {str(path): str(sha256) for path, sha256 in known.items()} if isinstance(known, dict) else {}


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as exc:
        raise ConfigFileRefused(path, [Problem("", f"cannot be read: {exc.strerror}")]) from None
    if len(data) > _LARGEST:
        raise ConfigFileRefused(path, [Problem("", f"is larger than {_LARGEST} bytes")])
    return data


def _hash(data: bytes) -> str:
    from hashlib import sha256

    return sha256(data).hexdigest()


def parse_toml(path: str, data: bytes) -> ConfigFile:
    """The tables that these bytes say; ConfigFileRefused names the line and quotes no value."""
    import re
    import tomllib

    text = data.removeprefix(_MARK)
    try:
        document = tomllib.loads(text.decode())
    except UnicodeDecodeError as exc:
        reason, line = "it is not UTF-8 text", text.count(b"\n", 0, exc.start) + 1
    except RecursionError:
        reason, line = "it is nested too deeply", 1
    except tomllib.TOMLDecodeError as exc:
        told = re.match(r"(?s)(.*?) \(at (?:line (\d+), column \d+|end of document)\)$", str(exc))
        reason = told[1] if told else str(exc)
        line = int(told[2]) if told and told[2] else data.rstrip(b"\r\n").count(b"\n") + 1
    else:
        return ConfigFile(path, document, data)
    # The reason may quote one character of the file, never a value.
    raise ConfigFileRefused(path, [Problem("", f"not valid TOML: {reason} (line {line})")])
