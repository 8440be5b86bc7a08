"""The embedded backend of a directory as its owner's commands use it: started if need be, with an admin session.

The session is opened with the key at hand; where there is none, or on request, with the passphrase, which is typed at a
terminal without being shown and is never an argument."""

from __future__ import annotations

import http.client
import json
import os
import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zorivest_rpc.config import chosen_data_dir
from zorivest_rpc.core_dumps import forbid_core_dumps
from zorivest_rpc.errors import ConfigError, ZorivestError

if TYPE_CHECKING:
    import argparse

    from zorivest_rpc.tenants.config import Tenant, Tenants

__all__ = ["Admin", "Place", "RequestRefused", "add_data_dir", "ask_secret", "clients_of", "place_of", "tell"]


class RequestRefused(ZorivestError):
    """The backend's answer was an error, or there is nothing to open it with."""


class Place(NamedTuple):
    """Whose journal a command is about: its directory, and what its process and its key come from.

    `tenant` is that of `--tenant`, and then the directory is its own; one with another backend has `remote` as well."""

    data_dir: Path
    environ: Mapping[str, str]
    tenant: str | None = None
    remote: Tenant | None = None


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Which journal a command is about."""
    usual = Path(chosen_data_dir(os.environ))
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=usual,
        help="where the journal lives (ZORIVEST_DATA_DIR; default: %(default)s)",
    )
    parser.set_defaults(usual_dir=usual)  # the same object, where the words name no other directory
    parser.add_argument("--tenant", metavar="ID", help="of a server with several clients: the journal of this one")
    parser.add_argument(
        "--tenants-file", metavar="FILE", help="the file that names the clients (ZORIVEST_TENANTS_FILE, CLIENTS_CONFIG)"
    )


def clients_of(arguments: argparse.Namespace, environ: Mapping[str, str] | None = None) -> Tenants | None:
    """The clients of which a command has to name one; None where the words mean one journal.

    With clients configured, the data directory's own journal is one that the server does not use; to back that up, or
    to lock its guard, would look like the real thing. A directory that is named is meant."""
    environ = os.environ if environ is None else environ
    if arguments.tenant is not None or arguments.data_dir is not arguments.usual_dir:
        return None
    if not arguments.tenants_file and not any(name in environ for name in ("ZORIVEST_TENANTS_FILE", "CLIENTS_CONFIG")):
        return None
    return _load(arguments, environ)


def _load(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Tenants | None:
    from zorivest_rpc.config import parse
    from zorivest_rpc.tenants.config import load_tenants

    words = ("--tenants-file", arguments.tenants_file) if arguments.tenants_file else ()
    return load_tenants(parse("tenants", words, environ), environ)


def place_of(
    arguments: argparse.Namespace, environ: Mapping[str, str] | None = None, *, may_be_remote: bool = False
) -> Place:
    """The journal that the words mean. A tenant that no file names is found by its directory, so that the journal of
    one that was taken out can still be backed up."""
    environ = os.environ if environ is None else environ
    if arguments.tenant is None:
        if (served := clients_of(arguments, environ)) is not None:
            ids = ", ".join(sorted(served.tenants))
            words = f"there are several clients; name one of {ids}, or another journal with --data-dir"
            raise ConfigError("--tenant", words)
        return Place(arguments.data_dir, environ)
    from zorivest_rpc.tenants.config import normalise_id
    from zorivest_rpc.tenants.embedded import clean_environ, directory_of

    tenants = _load(arguments, environ)
    known = {} if tenants is None else tenants.tenants
    id = normalise_id(arguments.tenant)
    tenant = known.get(id or "")
    secrets = [each.api_key_env for each in known.values() if each.api_key_env]
    kept = clean_environ(environ, secrets)
    if "ZORIVEST_IDLE_EXIT" in environ:
        kept["ZORIVEST_IDLE_EXIT"] = environ["ZORIVEST_IDLE_EXIT"]
    if tenant is not None and not tenant.embedded:
        if not may_be_remote:
            raise RequestRefused(
                f'client "{tenant.id}" has its backend at {tenant.where}; this command is for an embedded one'
            )
        return Place(arguments.data_dir, environ, tenant.id, tenant)
    if id is None or (tenant is None and not (directory_of(arguments.data_dir, id) / "bootstrap.json").exists()):
        there = f"there are {', '.join(sorted(known))}" if known else "no file names clients; give --tenants-file"
        raise RequestRefused(f'unknown client "{arguments.tenant}"; {there}')
    return Place(directory_of(arguments.data_dir, id), kept, id)


def tell(value: Any, text: str, as_json: bool) -> None:
    """The answer, for a program or for a person."""
    print(json.dumps(value) if as_json else text)


class Admin:
    """`ask` raises Refused with the backend's own words."""

    def __init__(
        self,
        data_dir: Path,
        *,
        by_passphrase: bool = False,
        environ: Mapping[str, str] | None = None,
        timeout: int = 60,
        wakeable: bool = False,
    ) -> None:
        from zorivest_rpc.embedded.locate import find_or_start, stored_key

        forbid_core_dumps()
        environ = os.environ if environ is None else environ
        self._timeout = timeout
        self._token: str | None = None
        self._located = find_or_start(data_dir, environ=environ, wakeable=wakeable)
        key = None if by_passphrase else stored_key(data_dir, environ)
        if key is not None:
            secret = {"api_key": key}
        elif by_passphrase or _has_passphrase(data_dir):
            secret = {"passphrase": ask_secret("Passphrase of the journal: ")}
        else:
            raise RequestRefused("no admin key at hand; set ZORIVEST_API_KEY")
        self._token = self.ask("POST", "/auth/unlock", secret)["session_token"]

    @classmethod
    def at(cls, place: Place, *, by_passphrase: bool = False, timeout: int = 60) -> Admin:
        """Of the journal that a command is about."""
        return cls(
            place.data_dir,
            by_passphrase=by_passphrase,
            environ=place.environ,
            timeout=timeout,
            wakeable=place.tenant is not None,
        )

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        given = dict(headers or {})
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        try:
            with closing(self._located.connect(self._timeout)) as connection:
                status, data, _ = connection.ask(method, path, body, given)
            if status < 400:
                return json.loads(data) if data else None
        except (OSError, http.client.HTTPException, ValueError) as exc:
            raise RequestRefused(f"the backend does not answer: {exc}") from None
        raise RequestRefused(_detail(data, status))


def ask_secret(prompt: str, what: str = "a passphrase") -> str:
    """What a person types at the terminal, not shown; refused where there is no terminal to hide it on."""
    from getpass import GetPassWarning, getpass

    with warnings.catch_warnings():
        warnings.simplefilter("error", GetPassWarning)
        try:
            return getpass(prompt)
        except (GetPassWarning, EOFError):
            raise RequestRefused(f"{what} is typed at a terminal, and there is none here") from None


def _has_passphrase(data_dir: Path) -> bool:
    from zorivest_rpc.embedded.disk.paths import DataDir

    try:
        return bool(json.loads(DataDir(data_dir).bootstrap.read_bytes()).get("passphrase"))
    except (OSError, ValueError, AttributeError):
        return False


def _detail(data: bytes, status: int) -> str:
    try:
        detail = json.loads(data)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"the backend answered {status}"
    if isinstance(detail, dict) and isinstance(errors := detail.get("errors"), dict):
        return "; ".join(f"{field}: {', '.join(wrong)}" for field, wrong in errors.items())
    return detail if isinstance(detail, str) else json.dumps(detail)
