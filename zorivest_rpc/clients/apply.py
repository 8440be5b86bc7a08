"""One install or uninstall from start to end: find the file, edit it, write it, tell what happened."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from . import edit, files
from .entries import Client, Launch
from .refusal import ClientFileRefused

__all__ = ["Done", "put_in", "show_change", "take_out", "until_still"]

_ATTEMPTS = 5
_SECRET = re.compile(
    r"""((?:key|token|secret|passw|auth|credential)[\w-]*["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}]+)""",
    re.IGNORECASE,
)
# What says in which variables secrets are is no secret; a value that is no name of a variable is.
_NAMES_VARIABLES = re.compile(
    r"""[+ -]\s*\w+_env(?:_by_tenant)? = (?:"\w+"|\{(?: "?[\w.-]+"? = "[A-Za-z_]\w*",?)+ \})"""
)


class Done(NamedTuple):
    """What happened to which file, and what it would look like as a diff."""

    status: str
    file: str
    backup: str | None
    diff: str


def put_in(client: Client, path: str, name: str, launch: Launch, *, dry_run: bool) -> Done:
    """Our entry added or brought up to date."""

    def once(file: files.ConfigFile) -> Done:
        made = edit.install(client, file.data, name, launch)
        backup = files.backup_path(file.path, name)
        done = _report(path, file, made, backup if _worth_keeping(client, file, name, made.status, backup) else None)
        if made.status != "unchanged" and not dry_run:
            assert made.after is not None
            files.replace(file, made.after, done.backup)
        return done

    return until_still(path, once)


def _worth_keeping(client: Client, file: files.ConfigFile, name: str, status: str, backup: str) -> bool:
    """The content from before our entry is the one to keep: an update leaves it alone, a file of ours has none."""
    if file.data is None or status == "unchanged":
        return False
    if status == "added":
        return True
    return not os.path.exists(backup) and edit.uninstall(client, file.data, name, None).after is not None


def take_out(client: Client, path: str, name: str, *, dry_run: bool) -> Done:
    """Our entry removed; a backup that equals the result is removed with it, another one is brought up to date."""

    def once(file: files.ConfigFile) -> Done:
        backup = files.backup_path(file.path, name)
        before = files.read(backup).data
        made = edit.uninstall(client, file.data, name, before)
        restored = made.after is None or made.after == before
        done = _report(path, file, made, None if restored or made.status == "unchanged" else backup)
        if made.status == "unchanged" or dry_run:
            return done
        if made.after is None:
            files.delete(file)
        else:
            files.replace(file, made.after, done.backup)
        if restored and before is not None:
            files.delete(files.read(backup))
        return done

    return until_still(path, once)


def until_still(path: str, once: Callable[[files.ConfigFile], Done]) -> Done:
    try:
        for _ in range(_ATTEMPTS):
            try:
                return once(files.read(path))
            except files.FileChanged:
                continue
    except ClientFileRefused as refused:
        raise refused if os.path.basename(path) in refused.where else refused.at(path) from None
    raise ClientFileRefused("another program keeps writing to it", "End that program and run this again.", path)


def _report(path: str, file: files.ConfigFile, made: edit.Edit, backup: str | None) -> Done:
    return Done(made.status, path, backup, show_change(path, file.data, made.after))


def show_change(path: str, before: bytes | None, after: bytes | None) -> str:
    """A change as a diff. A neighbour's secret may stand on a line of context; it is not our business to show it."""
    lines = difflib.unified_diff(
        (before or b"").decode().splitlines(),
        (after or b"").decode().splitlines(),
        path if before is not None else "/dev/null",
        path,
        n=1,
        lineterm="",
    )
    return "\n".join(line if _NAMES_VARIABLES.fullmatch(line) else _SECRET.sub(r'\1"…"', line) for line in lines)
