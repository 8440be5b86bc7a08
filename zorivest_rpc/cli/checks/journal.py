"""What is on the disk: the schema files, the options, the data directory and the files in it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from zorivest_rpc.config import Settings
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.errors import ConfigError

from .line import Line, fail, ok, warn
from .safekeeping import restore_step

__all__ = ["Bootstrap", "check_offer", "directory", "private_files", "read_bootstrap", "schemas"]

_PRIVATE = (
    "api.key",
    "bootstrap.json",
    "runtime.json",
    "serve.key",
    "session.key",
    "sessions.journal",
    "sessions.journal.copy",
    "zorivest.db",
)
_LITTLE, _ENOUGH = 64 * 2**20, 512 * 2**20


def schemas(root: str | None = None) -> Iterator[Line]:
    from zorivest_rpc.serving.catalog.load import check, schemas_dir

    problems = check(root)
    for problem in problems[:10]:
        yield fail("schemas", str(problem), "Install zorivest-rpc again, or undo the change to that file.")
    if len(problems) > 10:
        yield fail("schemas", f"and {len(problems) - 10} problems more", "The first ones may explain the others.")
    if not problems:
        yield ok("schemas", f"complete in {root or schemas_dir()}")


def check_offer(settings: Settings, client: str | None = None) -> Iterator[Line]:
    """The options as the server would take them, the toolset configuration among them, and whether their list fits."""
    from zorivest_rpc.app import Journal
    from zorivest_rpc.cli.asking import describe_askers
    from zorivest_rpc.cli.terminal import session_as

    file = settings.toolset_config or os.path.join(settings.data_dir, "toolset-config.json")
    try:
        journal = Journal(settings)
    except ConfigError as error:
        yield fail("options", str(error), "Correct it where it is set: the option, the variable or the file.")
        return
    except ExceptionGroup:
        yield fail("options", "not looked at, because of the schema files", "Mend those first.")
        return
    yield ok("options", f"valid; toolset configuration {file if os.path.exists(file) else 'none'}")
    session = session_as(journal, client)
    profile, count = journal.audience.profile(session), len(journal.audience.visible_tools(session))
    limit = profile.traits.tool_limit
    if limit is not None and count > limit:
        words = f"{count} tools are listed at start, and {profile.title} works best with at most {limit}"
        yield warn("list", words, "Choose fewer with --toolsets; tool_search and call_tool reach the others.")
    elif client is not None:
        yield ok("list", f"{count} tools are listed at start for {profile.title}; its limit: {limit or 'none known'}")
    if client is not None:
        yield ok("confirmation", describe_askers(journal.audience, session))


def directory(path: str) -> Iterator[Line]:
    """There, ours, private, writable, with room."""
    root = Path(path)
    if not root.exists():
        parent = next(each for each in root.parents if each.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            yield fail(
                "data", f"{root} cannot be made in {parent}", "Name another with --data-dir or ZORIVEST_DATA_DIR."
            )
        else:
            yield ok("data", f"{root} does not exist yet; the first call makes it")
            yield from _room(parent)
        return
    if not root.is_dir():
        yield fail("data", f"{root} is not a directory", "Move it away, or name another with --data-dir.")
        return
    facts = root.stat()
    if hasattr(os, "getuid") and facts.st_uid != os.getuid():
        yield fail("data", f"{root} belongs to another user", f"chown -R {os.getuid()} {shlex.quote(path)}")
    elif os.name == "posix" and stat.S_IMODE(facts.st_mode) & 0o077:
        yield fail(
            "data",
            f"{root} is open to others (mode {stat.S_IMODE(facts.st_mode):04o})",
            f"chmod 700 {shlex.quote(path)}",
        )
    try:
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as exc:
        yield fail("data", f"{root} cannot be written: {exc.strerror}", "Give your user the right to write there.")
    else:
        yield ok("data", f"{root} can be written")
    yield from _room(root)


def _room(path: Path) -> Iterator[Line]:
    try:
        free = shutil.disk_usage(path).free
    except OSError:
        return
    text = f"{free / 2**20:.0f} MiB free"
    if free < _LITTLE:
        yield fail("disk", text, "Free some space: a full disk refuses every write.")
    elif free < _ENOUGH:
        yield warn("disk", text, "Free some space soon.")
    else:
        yield ok("disk", text)


def private_files(path: str) -> Iterator[Line]:
    """Keys and the journal are for their owner alone."""
    if os.name != "posix":
        return
    wide, seen = [], 0
    for name in _PRIVATE:
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode)
            seen += 1
            if mode & 0o077:
                step = f"chmod 600 {shlex.quote(os.path.join(path, name))}"
                wide.append(fail("files", f"{name} is open to others (mode {mode:04o})", step))
    for child in DataDir(Path(path)).children:
        with contextlib.suppress(OSError):
            mode = stat.S_IMODE(child.stat().st_mode)
            if mode & 0o077:
                step = f"chmod 700 {shlex.quote(str(child))}"
                wide.append(fail("files", f"{child.name}/ is open to others (mode {mode:04o})", step))
    yield from wide
    key = Path(path) / "session.key"
    if key.is_file() and key.stat().st_size != 32:
        yield warn(
            "files",
            "session.key is damaged",
            f"rm {shlex.quote(str(key))}; a new one is made, and clients open new sessions.",
        )
    if seen and not wide:
        yield ok("files", f"{seen} private files, none open to others")


class Bootstrap:
    """`bootstrap.json` read without a key and without changing it."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.encrypted = content.get("cipher") == "sqlcipher4"
        self.key_source = str(content.get("key_source", "file"))
        self.has_passphrase = bool(content.get("passphrase"))
        self._keys = [key for key in content.get("keys", []) if isinstance(key, dict)]

    @property
    def created(self) -> float | None:
        moments = [moment for key in self._keys if (moment := _moment(key.get("created_at"))) is not None]
        return max(moments, default=None)

    def standing(self, fingerprint: str, now: float) -> str:
        """`valid`, `unknown`, `revoked` or `expired`."""
        for key in self._keys:
            if key.get("lookup_sha256") == fingerprint:
                until = _moment(key.get("expires_at"))
                return "revoked" if key.get("revoked") else "expired" if until and until <= now else "valid"
        return "unknown"

    def ends(self, fingerprint: str) -> float | None:
        """When a key expires, if it does."""
        found = (key for key in self._keys if key.get("lookup_sha256") == fingerprint)
        return _moment(next(found, {}).get("expires_at"))


def read_bootstrap(path: str) -> tuple[Line | None, Bootstrap | None]:
    """What the vault says about itself; a damaged one is a finding."""
    file = DataDir(Path(path)).bootstrap
    try:
        content = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("keys"), list):
        text = f"{file} is damaged: without it no key opens the journal"
        return fail("vault", text, restore_step(path)), None
    return None, Bootstrap(content)


def _moment(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError):
        return None
