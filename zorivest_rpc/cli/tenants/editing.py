"""`zorivest-rpc tenants add`, `grant` and `revoke`: one entry put into, or taken out of, the tenants file.

The file is spliced, not printed anew: comments, order and every other byte stay. It is read back before it is written,
and has to mean what it meant with that entry more or less."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zorivest_rpc.cli.mcp.editing import tell_change
from zorivest_rpc.cli.tenants.reading import known_toolsets
from zorivest_rpc.cli.words import Words
from zorivest_rpc.clients import files, jsonc, toml
from zorivest_rpc.clients.apply import Done as Change
from zorivest_rpc.clients.apply import show_change, until_still
from zorivest_rpc.clients.refusal import ClientFileRefused
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.private_files import alone
from zorivest_rpc.tenants.access import hash_key
from zorivest_rpc.tenants.config import SEATS, build, load_tenants, normalise_id
from zorivest_rpc.tenants.sources import VARIABLE, Document, TenantsRefused, decompress, parse_document

__all__ = ["run_add", "run_grant", "run_revoke"]

Entry = dict[str, Any]
_LATER = "It counts from the next start of serve on, or when serve gets SIGHUP."


class Target(NamedTuple):
    """What is changed: a file, or the variable, which only the operator can change."""

    path: str | None
    settings: Settings


def run_add(words: Words) -> int:
    if len(words.words) != 1:
        raise ConfigError("tenants add", f"takes one ID, found {len(words.words)}")
    given = words.words[0]
    id = normalise_id(given)
    if id is None:
        raise ConfigError("tenants add", f'{given!r} is not a usable id (a-z, 0-9, "-", "_", at most 64 characters)')
    url, variable = words.flags.get("--url"), words.flags.get("--key-env")
    embedded = "--embedded" in words.switches
    if embedded == (url is not None) or (url is None) != (variable is None):
        raise ConfigError("tenants add", "takes either --embedded, or --url URL with --key-env NAME")
    entry: Entry = {"embedded": True} if embedded else {"apiBaseUrl": url, "apiKeyEnv": variable}
    if name := words.flags.get("--name"):
        entry["name"] = name
    _refuse(words, "add", "--clients", "--seat")
    target = _target(words)
    if target.path is None:
        _load_variable(target)
        return _tell_variable(words, f"Put this into {VARIABLE}:", {id: entry})

    def change(text: str, document: Document) -> str:
        for raw, known in document.clients.items():
            if normalise_id(raw) == id:
                if known == entry:
                    return text
                raise ClientFileRefused(
                    f'it has another client "{id}"', "Change the file by hand, or take another id.", target.path or ""
                )
        if _is_toml(target):
            return toml.place(text, ("clients", id), entry)
        return jsonc.place(text, (id,), jsonc.render(entry))

    more = ["Its journal is made by its first call."] if embedded else [f"Its key is read from {variable}."]
    return _report(words, target, "added", f'client "{id}"', change, more=[*more, _LATER])


def run_grant(words: Words) -> int:
    _no_words(words, "grant")
    _refuse(words, "grant", "--url", "--key-env", "--embedded")
    name, clients, seat = _name(words, "grant"), words.flags.get("--clients"), words.flags.get("--seat")
    if clients is None:
        raise ConfigError("tenants grant", "takes --clients a,b, or --clients '*' for all of them")
    if seat is not None and seat not in SEATS:
        raise ConfigError("--seat", f"{seat!r} is not one of {', '.join(SEATS)}")
    wanted: str | list[str] = "*" if clients.strip() == "*" else _ids(clients)
    target = _target(words)
    key = _new_key()
    entry: Entry = {"keySha256": hash_key(key), "name": name, "clients": wanted}
    if seat is not None:
        entry["seat"] = seat
    if target.path is None:
        document = _load_variable(target)
        _must_know(document, wanted)
        if any(rule.get("name") == name for rule in document.access):
            raise ConfigError("--name", f'{VARIABLE} has an access key "{name}" already; take another name')
        return _tell_variable(words, f"Put this into the list $access of {VARIABLE}:", entry, key)

    def change(text: str, document: Document) -> str:
        _must_know(document, wanted)
        for rule in document.access:
            if rule.get("name") == name:
                if rule.get("clients") == wanted and rule.get("seat") == seat:
                    return text
                advice = f'Run "zorivest-rpc tenants revoke --name {name}" first, or take another name.'
                raise ClientFileRefused(f'it has another access key "{name}"', advice, target.path or "")
        if _is_toml(target):
            return toml.append_entry(text, ("access",), entry)
        return jsonc.place(text, ("$access",), jsonc.render([*document.access, entry]))

    kept = f'The key of "{name}" was shown when it was made. For another one revoke it, or grant one by another name.'
    return _report(words, target, "added", f'access key "{name}"', change, key=key, more=[_LATER], unchanged=[kept])


def run_revoke(words: Words) -> int:
    _no_words(words, "revoke")
    _refuse(words, "revoke", "--url", "--key-env", "--embedded", "--clients", "--seat")
    name, target = _name(words, "revoke"), _target(words)
    if target.path is None:
        document = _load_variable(target)
        if not any(rule.get("name") == name for rule in document.access):
            raise ConfigError("--name", f'{VARIABLE} has no access key "{name}"')
        return _tell_variable(words, f"Take this out of the list $access of {VARIABLE}:", {"name": name})
    last = False

    def change(text: str, document: Document) -> str:
        nonlocal last
        names = [rule.get("name") for rule in document.access]
        if name not in names:  # a key that is lost and stays good must not look like one that is revoked
            known = ", ".join(f'"{each}"' for each in names) or "none"
            advice = f"Its access keys: {known}. Nothing was changed."
            raise ClientFileRefused(f'it has no access key "{name}"', advice, target.path or "")
        last = len(names) == 1
        index = names.index(name)
        if _is_toml(target):
            return toml.remove_entry(text, ("access",), index)
        rest = [rule for position, rule in enumerate(document.access) if position != index]
        return jsonc.place(text, ("$access",), jsonc.render(rest)) if rest else jsonc.remove(text, ("$access",))

    def tell() -> list[str]:
        none = "There is no access key left: over HTTP serve does not start without one."
        return [f"Until then it opens what it opened. {_LATER}", *([none] if last else [])]

    return _report(words, target, "removed", f'access key "{name}"', change, more=tell)


# --- the file


def _report(
    words: Words,
    target: Target,
    verb: str,
    what: str,
    change: Callable[[str, Document], str],
    *,
    key: str | None = None,
    more: Sequence[str] | Callable[[], Sequence[str]] = (),
    unchanged: Sequence[str] = (),
) -> int:
    """Make the change and tell it; the key is printed once it is written, and never by a trial."""
    dry_run = "--dry-run" in words.switches
    try:
        done = _change(target, change, verb, dry_run)
    except ClientFileRefused as refused:
        if words.json:
            facts: Entry = {
                "status": "refused",
                "where": refused.where,
                "problem": refused.problem,
                "next": refused.next,
            }
            _print_json(facts)
        else:
            print(f"zorivest-rpc: {refused}", file=sys.stderr)
        return 1
    written = done.status != "unchanged" and not dry_run
    if words.json:
        facts = {"status": done.status, "file": done.file, "backup": done.backup, "dry_run": dry_run, "diff": done.diff}
        _print_json({**facts, "key": key if written else None})
        return 0
    tell_change(done, what, verb, dry_run)
    if written and key is not None:
        print(f"The key, shown this once:\n{key}")
    told = more() if callable(more) else more
    for line in told if written else unchanged if done.status == "unchanged" else ():
        print(line)
    return 0


def _change(target: Target, change: Callable[[str, Document], str], status: str, dry_run: bool) -> Change:
    path = target.path
    assert path is not None
    packed = path.endswith(".gz")

    def once(file: files.ConfigFile) -> Change:
        data = decompress(path, file.data) if packed and file.data else file.data
        before = _text(path, data)
        old = parse_document(path, before.encode()) if before.strip() else Document({}, [])
        if before.strip():
            build(path, old, known_toolsets(target.settings))  # a file that is wrong is mended first
        after = change(before, old)
        if after == before:
            return Change("unchanged", path, None, "")
        _prove(target, old, after)
        backup = files.backup_path(file.path, "tenants") if file.data is not None else None
        done = Change(status, path, backup, show_change(path, data, after.encode()))
        if not dry_run:
            files.replace(file, gzip.compress(after.encode(), 9, mtime=0) if packed else after.encode(), backup)
        return done

    if dry_run:
        return until_still(path, once)
    real = os.path.realpath(path)
    try:
        with alone(os.path.join(os.path.dirname(real), f".{os.path.basename(real)}")):  # two of us at once lose nothing
            return until_still(path, once)
    except OSError as exc:
        next = f"Give your user the right to write in {os.path.dirname(real)}, or free some space."
        raise ClientFileRefused(f"it cannot be locked: {exc.strerror}", next, path) from None


def _text(path: str, data: bytes | None) -> str:
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise TenantsRefused(path, [f"{path}: it is not UTF-8 text"]) from None


def _prove(target: Target, old: Document, after: str) -> None:
    """The new file is sound, and means the old one with one entry more or less."""
    assert target.path is not None
    try:
        new = parse_document(target.path, after.encode())
    except TenantsRefused:  # it was sound before
        raise ClientFileRefused(
            "its clients are written in one piece",
            "Write each of them as a table of its own, [clients.ID], and run this again.",
            target.path,
        ) from None
    build(target.path, new, known_toolsets(target.settings))
    clients = _count_changes(old, new)
    rules = [rule for rule in (*old.access, *new.access) if rule not in old.access or rule not in new.access]
    if clients + len(rules) != 1:
        raise ClientFileRefused("our edit would change something else", "Nothing was changed; edit it by hand.")


def _count_changes(old: Document, new: Document) -> int:
    keys = {*old.clients, *new.clients}
    return sum(old.clients.get(key) != new.clients.get(key) for key in keys)


def _target(words: Words) -> Target:
    settings = parse("tenants", words.options)
    present = settings.tenant_sources
    if len(present) > 1 or (present and VARIABLE not in present and not (settings.tenants_file or "").strip()):
        load_tenants(settings, os.environ)  # which refuses it in its own words
    if VARIABLE in present:
        return Target(None, settings)
    if not present:
        raise ConfigError("--tenants-file", "name the file that is to be changed; one that is not there is made")
    path = settings.tenants_file or ""
    if not path.endswith((".json", ".json.gz", ".toml")):
        raise ConfigError("--tenants-file", f"{path} must end in .json, .json.gz or .toml")
    return Target(path, settings)


def _is_toml(target: Target) -> bool:
    return (target.path or "").endswith(".toml")


# --- the variable, which is the operator's


def _load_variable(target: Target) -> Document:
    from zorivest_rpc.tenants.sources import read_variable

    load_tenants(target.settings, os.environ, known_toolsets(target.settings))
    return read_variable(os.environ.get(VARIABLE, ""))


def _tell_variable(words: Words, text: str, entry: Entry, key: str | None = None) -> int:
    if words.json:
        _print_json({"status": "to do", "variable": VARIABLE, "entry": entry, "key": key})
        return 0
    print(f"{VARIABLE} cannot be written from here. {text}")
    print(json.dumps(entry, ensure_ascii=False, indent=2))
    if key is not None:
        print(f"The key, shown this once:\n{key}")
    return 0


# --- words


def _name(words: Words, verb: str) -> str:
    name = words.flags.get("--name", "").strip()
    if not name:
        raise ConfigError(f"tenants {verb}", "takes --name NAME")
    return name


def _no_words(words: Words, verb: str) -> None:
    if words.words:
        raise ConfigError(f"tenants {verb}", f"takes no word, found {words.words[0]!r}")


def _refuse(words: Words, verb: str, *flags: str) -> None:
    for flag in flags:
        if flag in words.flags or flag in words.switches:
            raise ConfigError(flag, f"unknown option of tenants {verb}")


def _ids(text: str) -> list[str]:
    ids = []
    for raw in filter(None, map(str.strip, text.split(","))):
        id = normalise_id(raw)
        if id is None:
            raise ConfigError("--clients", f"{raw!r} is not the id of a client")
        ids.append(id)
    if not ids:
        raise ConfigError("--clients", "names no client")
    return list(dict.fromkeys(ids))


def _must_know(document: Document, wanted: str | list[str]) -> None:
    known = sorted(id for raw in document.clients if (id := normalise_id(raw)) is not None)
    for id in wanted if isinstance(wanted, list) else ():
        if id not in known:
            raise ConfigError("--clients", f'unknown client "{id}"; there are {", ".join(known) or "none"}')


def _new_key() -> str:
    from secrets import token_urlsafe

    return f"zrv_ak_{token_urlsafe(32)}"


def _print_json(facts: Entry) -> None:
    from zorivest_rpc.cli.terminal import print_json

    print_json({"schema": "zorivest.tenants.edit.v1", **facts})
