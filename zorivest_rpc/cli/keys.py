"""`zorivest-rpc keys`: the API keys of the embedded backend, and the passphrase that opens it too.

Everything goes through the backend's own routes, so one process alone writes the vault."""

from __future__ import annotations

import argparse
import sys
import urllib.parse

from zorivest_rpc.cli.admin import Admin, Place, RequestRefused, add_data_dir, ask_secret, place_of, tell
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused or unreachable, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        place = place_of(arguments)
        backend = Admin.at(place, by_passphrase=arguments.passphrase)
        if arguments.command == "list":
            return _list(backend, arguments.json)
        if arguments.command == "create":
            return _create(backend, arguments, place)
        if arguments.command == "passphrase":
            return _passphrase(backend, arguments)
        backend.ask("DELETE", f"/auth/keys/{urllib.parse.quote(arguments.key_id, safe='')}")
        tell({"status": "revoked", "key_id": arguments.key_id}, f"revoked {arguments.key_id}", arguments.json)
        return 0
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc keys: {exc}", file=sys.stderr)
        return 1


def _list(backend: Admin, as_json: bool) -> int:
    keys = backend.ask("GET", "/auth/keys")
    rows = [
        f"{key['key_id']}  {key['masked_key']}  {key['role']:<10}  {key['label']}"
        + (f"  expires {key['expires_at']}" if key["expires_at"] else "")
        for key in keys
    ]
    tell(keys, "\n".join(rows), as_json)
    return 0


def _create(backend: Admin, arguments: argparse.Namespace, place: Place) -> int:
    body = {"label": arguments.label, "role": arguments.role, "expires_in": arguments.expires_in}
    key = backend.ask("POST", "/auth/keys", body)
    if arguments.store:
        from zorivest_rpc.embedded.disk.paths import DataDir
        from zorivest_rpc.embedded.vault.keystore import store_key

        use_keyring = place.environ.get("ZORIVEST_KEYRING") != "off"
        store_key(DataDir(place.data_dir), key["raw_key"], use_keyring=use_keyring)
    text = f"{key['raw_key']}\nkey id {key['key_id']}, role {key['role']}; the key is not shown again"
    tell(key, text, arguments.json)
    return 0


def _passphrase(backend: Admin, arguments: argparse.Namespace) -> int:
    """Typed twice and never an argument, so that neither a typing error nor a list of processes has it."""
    if arguments.verb == "set":
        chosen = ask_secret("New passphrase: ")
        if ask_secret("The same again: ") != chosen:
            raise RequestRefused("the two are not the same; nothing was changed")
        backend.ask("PUT", "/auth/passphrase", {"passphrase": chosen})
    elif arguments.verb == "remove":
        backend.ask("DELETE", "/auth/passphrase")
    held = backend.ask("GET", "/auth/passphrase")
    text = f"a passphrase opens this journal, set {held['created_at']}" if held["set"] else "no passphrase is set"
    tell(held, text, arguments.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    add_data_dir(shared)
    shared.add_argument("--json", action="store_true", help="print JSON for programs")
    shared.add_argument(
        "--passphrase", action="store_true", help="open the journal with its passphrase, which is asked for"
    )
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc keys",
        description="API keys of the embedded backend. The admin key is ZORIVEST_API_KEY or the stored one; where "
        "there is none and the journal has a passphrase, that is asked for.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", parents=[shared], help="keys that work, masked")
    create = commands.add_parser("create", parents=[shared], help="a further key, shown once")
    create.add_argument("--label", required=True, help="what the key is for")
    create.add_argument("--role", choices=["read-only", "read-write", "admin"], default="read-write")
    create.add_argument("--expires-in", type=int, metavar="SECONDS", help="how long the key works")
    create.add_argument("--store", action="store_true", help="keep it as the key that servers of this directory use")
    revoke = commands.add_parser("revoke", parents=[shared], help="withdraw a key and end its sessions")
    revoke.add_argument("key_id")
    passphrase = commands.add_parser(
        "passphrase", parents=[shared], help="a second way into the journal, for you instead of a program"
    )
    passphrase.add_argument(
        "verb", choices=["set", "show", "remove"], help="set also changes it; it is typed, not shown"
    )
    return parser
