"""Putting our entry into a client's file and taking it out: text in, text out, and the proof that nothing else changed.

Rule 1: every edit is read back: the new document must mean the old one plus or minus our entry, or it is not written.
Rule 2: taking out gives the bytes from before putting in, unless another program wrote in between; the backup knows.
Rule 3: an entry under our name that is not ours belongs to the user, and stays."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import jsonc, toml
from .entries import OWNED, Client, Launch, is_ours, shape_for
from .refusal import ClientFileRefused

__all__ = ["Edit", "entries_in", "install", "uninstall"]

_AGAIN = "Nothing was changed; add or remove the entry by hand, and tell us about the file."


class Edit(NamedTuple):
    """`after` is None where the file should not be there at all."""

    status: str  # added, updated, removed, unchanged
    after: bytes | None


def entries_in(client: Client, data: bytes | None) -> Mapping[str, Any]:
    """Every server that the file lists, by name."""
    document = _document(client, _text(data))
    return _servers(shape_for(client, document), document)


def install(client: Client, data: bytes | None, name: str, launch: Launch) -> Edit:
    """The file with our entry; keys that the user or the client added to it stay."""
    text = _text(data)
    document = _document(client, text)
    client = shape_for(client, document)
    wanted = client.entry(launch)
    present = _servers(client, document).get(name)
    if present is not None:
        _must_be_ours(client, present, name)
        kept = {key: value for key, value in present.items() if key not in OWNED}
        wanted = {**wanted, **kept}
        if wanted == present:
            return Edit("unchanged", data)
    path = (*client.keys, name)
    if client.toml:
        own = {key: value for key, value in wanted.items() if key in OWNED}
        after = toml.place(text, path, own, owned=sorted(OWNED))
    else:
        after = jsonc.place(text, path, jsonc.render(wanted))
    _prove(client, document, after, name, wanted)
    return Edit("added" if present is None else "updated", after.encode())


def uninstall(client: Client, data: bytes | None, name: str, backup: bytes | None) -> Edit:
    """The file without our entry, and without the objects that were made for it."""
    text = _text(data)
    document = _document(client, text)
    client = shape_for(client, document)
    present = _servers(client, document).get(name)
    if data is None or present is None:
        return Edit("unchanged", data)
    _must_be_ours(client, present, name)
    if backup is None and _put_back(client, "", text, name) == text:
        return Edit("removed", None)  # the file was made for the entry alone
    if backup is not None and (before := _text_or_none(backup)) is not None:
        if _put_back(client, before, text, name) == text:
            return Edit("removed", backup)
        made = _count_new_objects(client, before)
    else:
        made = 0
    after = _remove(client, text, (*client.keys, name))
    for depth in range(len(client.keys), len(client.keys) - made, -1):
        keys = client.keys[:depth]
        if _at(_document(client, after), keys) == {}:
            after = _remove(client, after, keys)
    _prove(client, document, after, name, None)
    return Edit("removed", after.encode())


def _put_back(client: Client, before: str, text: str, name: str) -> str | None:
    """What putting the entry, as it is now, into an earlier text would give."""
    path = (*client.keys, name)
    try:
        if _servers(client, _document(client, before)).get(name) is not None:
            return None
        if client.toml:
            where = toml.span(text, path)
            return toml.place(before, path, {}, text[where[0] : where[1]]) if where else None
        node = jsonc.find(text, path)
        assert node is not None
        return jsonc.place(before, path, lambda *_: text[node.start : node.end])
    except ClientFileRefused:
        return None


def _count_new_objects(client: Client, before: str) -> int:
    """How many of the objects on the way to the servers were not there before."""
    try:
        document = _document(client, before)
    except ClientFileRefused:
        return 0
    missing = [depth for depth in range(1, len(client.keys) + 1) if _at(document, client.keys[:depth]) is None]
    return len(missing)


def _remove(client: Client, text: str, path: tuple[str, ...]) -> str:
    return toml.remove(text, path) if client.toml else jsonc.remove(text, path)


def _text(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as exc:
        line = (data or b"").count(b"\n", 0, exc.start) + 1
        raise ClientFileRefused(
            "it is not UTF-8 text", "Save it as UTF-8 and run this again.", f"line {line}"
        ) from None


def _text_or_none(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _document(client: Client, text: str) -> dict[str, Any]:
    if client.toml:
        return toml.parse(text)
    if jsonc.is_blank(text):
        return {}
    value = jsonc.parse(text).value
    if not isinstance(value, dict):
        raise ClientFileRefused(
            "it does not hold an object", "Look at what is in it; a settings file begins with {.", "line 1"
        )
    return value


def _at(document: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    value: Any = document
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _servers(client: Client, document: Mapping[str, Any]) -> Mapping[str, Any]:
    value: Any = document
    for depth, key in enumerate(client.keys, 1):
        value = value.get(key, {})
        if not isinstance(value, Mapping):
            name = ".".join(client.keys[:depth])
            raise ClientFileRefused(f'"{name}" holds no servers but something else', "Correct it and run this again.")
    servers: Mapping[str, Any] = value
    return servers


def _must_be_ours(client: Client, entry: Any, name: str) -> None:
    if not is_ours(entry):
        raise ClientFileRefused(
            f'"{name}" under {client.container} starts another program',
            "Choose another name with --name, or remove that entry yourself.",
        )


def _prove(client: Client, before: Mapping[str, Any], after: str, name: str, entry: Mapping[str, Any] | None) -> None:
    """Read back: the old document with our entry set or gone, and not a value else."""
    try:
        document = _document(client, after)
    except ClientFileRefused as problem:
        raise ClientFileRefused(f"our edit would break it ({problem.problem})", _AGAIN) from None
    if _at(document, (*client.keys, name)) != entry:
        raise ClientFileRefused("our edit would not hold the entry", _AGAIN)
    if _without(client, document, name) != _without(client, before, name):
        raise ClientFileRefused("our edit would change something else", _AGAIN)


def _without(client: Client, document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A document less our entry and less the empty objects around it."""
    rest: dict[str, Any] = copy.deepcopy(dict(document))
    for depth in range(len(client.keys), -1, -1):
        parent, key = _at(rest, client.keys[:depth]), (*client.keys, name)[depth]
        if isinstance(parent, dict) and key in parent and (depth == len(client.keys) or parent[key] == {}):
            del parent[key]
    return rest
