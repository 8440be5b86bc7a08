"""`zorivest-rpc backup`: make, list and restore backups of the embedded journal."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zorivest_rpc.cli.admin import Admin, Place, RequestRefused, add_data_dir, ask_secret, place_of, tell
from zorivest_rpc.errors import ConfigError, ZorivestError

if TYPE_CHECKING:
    from zorivest_rpc.embedded.disk.backups import Backup
    from zorivest_rpc.embedded.disk.filelock import FileLock
    from zorivest_rpc.embedded.disk.paths import DataDir
    from zorivest_rpc.embedded.vault.vault import Vault

__all__ = ["run"]

_PATIENCE = 30.0


def run(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        place = place_of(arguments)
        if arguments.command == "create":
            made = Admin.at(place, timeout=600).ask("POST", "/backups")
            tell(made, f"made {made['name']} ({_size(made['bytes'])})", arguments.json)
        elif arguments.command == "list":
            _list(arguments, place)
        else:
            _restore(arguments, place)
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc backup: {exc}", file=sys.stderr)
        return 1
    except OSError as exc:
        print(f"zorivest-rpc backup: {exc.filename or arguments.data_dir}: {exc.strerror or exc}", file=sys.stderr)
        return 1
    return 0


def _list(arguments: argparse.Namespace, place: Place) -> None:
    """Read from the disk: neither a backend nor a key is needed."""
    found = _list_backups(place.data_dir)
    rows = [
        f"{backup.name:<32}  {backup.reason:<9}  {_size(backup.bytes):>9}  {'' if backup.facts.encrypted else 'plain'}"
        for backup in found
    ]
    tell([backup.view() for backup in found], "\n".join(map(str.rstrip, rows)) or "no backups yet", arguments.json)


def _restore(arguments: argparse.Namespace, place: Place) -> None:
    from zorivest_rpc.embedded.database.engine import cipher_driver
    from zorivest_rpc.embedded.disk.filelock import FileLock
    from zorivest_rpc.embedded.disk.paths import DataDir
    from zorivest_rpc.embedded.errors import Refusal
    from zorivest_rpc.embedded.safekeeping.restore import restore

    backup = _choose_backup(place.data_dir, arguments.name)
    directory = DataDir(place.data_dir.absolute()).create()
    opener = _Opener(directory, place, by_passphrase=arguments.passphrase)
    # A process that wants to start a backend meanwhile waits for the first lock; the second is the backend's own.
    with FileLock(directory.start_lock) as starting, FileLock(directory.process_lock) as running:
        _acquire(starting, "another program is starting the backend; try again")
        _take_backend_lock(place, directory, running, stop=arguments.stop, by_passphrase=arguments.passphrase)
        try:
            done = restore(directory, backup, opener, cipher_driver())
        except Refusal as exc:
            raise RequestRefused(f"{exc.detail} Nothing was changed.") from None
        directory.runtime.unlink(missing_ok=True)
        directory.due.unlink(missing_ok=True)  # of the schedule that was replaced
        opener.keep(place)
    text = f"restored {backup.name}; the next call opens it"
    if done.kept:
        text += f"\nwhat stood there is kept as {done.kept}"
    if done.keys == "backup":
        text += "\nthe keys are those of the backup, too"
    tell({"status": "restored", "name": backup.name, "kept": done.kept, "keys": done.keys}, text, arguments.json)


class _Opener:
    """Opens a vault with the key at hand or a passphrase, asked for once."""

    def __init__(self, directory: DataDir, place: Place, *, by_passphrase: bool) -> None:
        """For a tenant `ZORIVEST_API_KEY` counts only where its directory has no key: a journal that comes here."""
        from zorivest_rpc.embedded.locate import stored_key

        self._directory = directory
        stored = stored_key(directory.root, place.environ)
        self._brought = os.environ.get("ZORIVEST_API_KEY") if place.tenant is not None and stored is None else None
        self._key = None if by_passphrase else stored or self._brought
        self._typed: str | None = None

    def keep(self, place: Place) -> None:
        """The key that a tenant's journal came with is the server's key of it from now on."""
        if self._brought is not None and self._key is not None:
            from zorivest_rpc.embedded.vault.keystore import store_key

            store_key(self._directory, self._brought, use_keyring=place.environ.get("ZORIVEST_KEYRING") != "off")

    def __call__(self, vault: Vault) -> bytes:
        if self._key is not None:
            return vault.unlock(self._key)[1]
        if self._typed is None:
            if vault.passphrase is None:
                raise RequestRefused("no key at hand to open the backup with; set ZORIVEST_API_KEY")
            self._typed = ask_secret("Passphrase of the journal: ")
        return vault.unlock_by_passphrase(self._typed)


def _take_backend_lock(place: Place, directory: DataDir, running: FileLock, *, stop: bool, by_passphrase: bool) -> None:
    """The backend's own lock, taken; a backend that runs is stopped in good order if that was asked for."""
    if running.acquire():
        return
    if not stop:
        raise RequestRefused("the backend runs; --stop ends it first, and the next call starts it again")
    from zorivest_rpc.embedded.locate import find

    if find(directory.root) is None:
        raise RequestRefused("the backend does not answer; end it first (zorivest-rpc doctor names its process)")
    Admin.at(place, by_passphrase=by_passphrase).ask("POST", "/service/graceful-shutdown")
    _acquire(running, "the backend did not end in time; try again", _PATIENCE)


def _acquire(lock: FileLock, otherwise: str, patience: float = 0.0) -> None:
    deadline = time.monotonic() + patience
    while not lock.acquire():
        if time.monotonic() >= deadline:
            raise RequestRefused(otherwise)
        time.sleep(0.05)


def _choose_backup(data_dir: Path, name: str) -> Backup:
    found = _list_backups(data_dir)
    if not found:
        raise RequestRefused(f"there are no backups in {data_dir / 'backups'}")
    if name == "latest":
        from zorivest_rpc.embedded.disk.backups import REPLACED

        whole = [backup for backup in found if backup.reason not in REPLACED]
        return (whole or found)[0]
    for backup in found:
        if backup.name == name:
            return backup
    raise RequestRefused(f"there is no backup {name!r}; zorivest-rpc backup list shows them")


def _list_backups(data_dir: Path) -> list[Backup]:
    from zorivest_rpc.embedded.disk.backups import list_backups
    from zorivest_rpc.embedded.disk.paths import DataDir

    return list_backups(DataDir(data_dir))


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{count / 1024:.0f} KiB"


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    add_data_dir(shared)
    shared.add_argument("--json", action="store_true", help="print JSON for programs")
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc backup",
        description="Backups of the embedded journal, in backups/ of its directory. The backend makes one a day by "
        "itself, one after many changes, and one before a newer version changes the tables.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("create", parents=[shared], help="make one now; only you delete it")
    commands.add_parser("list", parents=[shared], help="those that can be restored, the newest first")
    restore = commands.add_parser("restore", parents=[shared], help="put one in the journal's place, and keep that")
    restore.add_argument("name", help="a name of the list, or latest")
    restore.add_argument("--stop", action="store_true", help="end the running backend first")
    restore.add_argument("--passphrase", action="store_true", help="open it with the passphrase, which is asked for")
    return parser
