"""The three sources of tenants read into one shape: a variable or a file, plain or compressed, JSON or TOML.

Every limit holds before anything is parsed, so that no input costs more than it may."""

from __future__ import annotations

import json
import os
import stat
import sys
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zorivest_rpc.config_file import ConfigFileRefused, Problem, nearest_key, parse_toml
from zorivest_rpc.errors import ConfigError

__all__ = [
    "VARIABLE",
    "Document",
    "Repeated",
    "TenantsRefused",
    "compress",
    "decompress",
    "parse_document",
    "permission_problem",
    "read_bytes",
    "read_file",
    "read_variable",
]

VARIABLE: Final = "CLIENTS_CONFIG"
LARGEST_INPUT: Final = 256 * 1024
LARGEST_OUTPUT: Final = 4 * 1024 * 1024
_MEMBERS: Final = 16  # of one gzip; each costs a copy of the rest
_COMPRESSED: Final = "H4sI"  # the base64 of the gzip magic bytes and method


class TenantsRefused(ConfigFileRefused):
    """Everything that is wrong with a source of tenants, a line each as it is to be printed."""

    def __init__(self, source: str, lines: list[str]) -> None:
        super().__init__(source, [Problem("", line) for line in lines])

    def lines(self) -> list[str]:
        return [problem.message for problem in self.problems]


class Repeated(dict[str, Any]):
    """A JSON object; `twice` are the keys that it has more than once, of which a mapping knows the last alone."""

    twice: tuple[str, ...] = ()


class Document(NamedTuple):
    """What a source says, unjudged: the tables by their keys as written, and the rules of access."""

    clients: Mapping[str, Any]
    access: Any
    problems: tuple[str, ...] = ()  # of what surrounds the two


def read_variable(text: str, source: str = VARIABLE) -> Document:
    """The JSON of a variable, which may be compressed."""
    if len(text.encode(errors="surrogateescape")) > LARGEST_INPUT:
        raise _refused(source, "larger than 256 KiB")
    return parse_document(source, _expand(source, text))


def read_file(path: str) -> Document:
    """The tenants of a file; its ending says of which kind it is."""
    return parse_document(path, read_bytes(path))


def read_bytes(path: str) -> bytes:
    """What the file says, decompressed."""
    if not path.endswith((".json", ".json.gz", ".toml")):
        raise _refused(path, "must end in .json, .json.gz or .toml")
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_INPUT + 1)
    except OSError as exc:
        raise _refused(path, f"cannot be read: {exc.strerror}") from None
    if len(data) > LARGEST_INPUT:
        raise _refused(path, "larger than 256 KiB")
    return decompress(path, data) if path.endswith(".gz") else data


def permission_problem(path: str) -> str | None:
    """What is wrong with the rights of a file that may hold secrets, and what mends it."""
    if sys.platform == "win32":
        return None
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return None
    if not mode & 0o077:
        return None
    return f"{path}: open to group or others (mode {mode:04o}); run: chmod 600 {path}"


def compress(data: bytes) -> str:
    """The text that stands for a document in a variable; the same document gives the same text on every machine."""
    from base64 import b64encode
    from gzip import compress as gzip

    return b64encode(gzip(data, 9, mtime=0)).decode()


def parse_document(source: str, data: bytes) -> Document:
    """JSON or, by the name of the source, TOML."""
    if source.endswith(".toml"):
        return _from_toml(source, data)
    document = _parse_json(source, data)
    if not isinstance(document, Repeated):
        raise _refused(source, "must be an object mapping client ids to settings")
    twice = document.twice
    problems = (f"{source}: $access is given twice",) if "$access" in twice else ()
    access = document.pop("$access", [])
    if access is None:  # it is there, so it is no word for "every client is granted"
        problems, access = (*problems, f"{source}: access must be a list"), []
    clients = Repeated(document)
    clients.twice = tuple(key for key in twice if key != "$access")
    return Document(clients, access, problems)


def _from_toml(source: str, data: bytes) -> Document:
    try:
        document = parse_toml(source, data).document
    except ConfigFileRefused as exc:
        raise TenantsRefused(source, exc.lines()) from None
    known = ["clients", "access"]
    problems = tuple(
        f'{source}: unknown key "{_shown(key)}"{nearest_key(key, known)}' for key in document if key not in known
    )
    clients = document.get("clients", {})
    if not isinstance(clients, dict):
        raise _refused(source, "must be an object mapping client ids to settings")
    return Document(clients, document.get("access", []), problems)


def _parse_json(source: str, data: bytes) -> Any:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        column = exc.start - data.rfind(b"\n", 0, exc.start)
        raise _refused(source, f"not valid JSON: it is not UTF-8 text (line {line}, column {column})") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        reason, line, column = exc.msg, exc.lineno, exc.colno
    except RecursionError:
        reason, line, column = "it is nested too deeply", 1, 1
    except ValueError as exc:  # NaN and its like; a number of thousands of digits
        reason, line, column = str(exc).partition(";")[0].partition(":")[0], 1, 1
    raise _refused(source, f"not valid JSON: {reason} (line {line}, column {column})")


def _object(pairs: list[tuple[str, Any]]) -> Repeated:
    made = Repeated(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        made.twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _expand(source: str, text: str) -> bytes:
    bare = text.lstrip()
    if not bare.startswith(_COMPRESSED):
        return text.encode(errors="surrogateescape")
    from base64 import b64decode
    from binascii import Error

    try:
        packed = b64decode("".join(bare.split()), validate=True)
    except (Error, ValueError) as exc:
        raise _refused(source, f"looks compressed but cannot be decompressed: {exc}") from None
    return decompress(source, packed)


def decompress(source: str, packed: bytes) -> bytes:
    """Every member of a gzip, and never more than the limit of them."""
    out = b""
    for _ in range(_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        try:
            out += member.decompress(packed, LARGEST_OUTPUT + 1 - len(out))
        except zlib.error as exc:
            reason = str(exc).rpartition(": ")[2]
            raise _refused(source, f"looks compressed but cannot be decompressed: {reason}") from None
        if len(out) > LARGEST_OUTPUT:
            raise _refused(source, "decompressed size exceeds 4 MiB")
        if not member.eof:
            raise _refused(source, "looks compressed but cannot be decompressed: it ends too early")
        packed = member.unused_data
        if not packed:
            return out
    raise _refused(source, "looks compressed but cannot be decompressed: it has too many parts")


def _refused(source: str, problem: str) -> ConfigError:
    return TenantsRefused(source, [f"{source}: {problem}"])


def _shown(text: str) -> str:
    """A name from outside, on one line and cut."""
    return json.dumps(text)[1:-1][:64]
