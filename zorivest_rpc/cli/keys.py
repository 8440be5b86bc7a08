"""`zorivest-rpc keys`: list, create and revoke the API keys of the embedded backend.

Everything goes through the backend's own routes, so one process alone writes the vault."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from zorivest_rpc.errors import ZorivestError

__all__ = ["main"]


class _Refused(ZorivestError):
    """The backend's answer was an error."""


def main(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused or unreachable, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        backend = _Backend(arguments.data_dir)
        if arguments.command == "list":
            return _list(backend, arguments.json)
        if arguments.command == "create":
            return _create(backend, arguments)
        backend.ask("DELETE", f"/auth/keys/{urllib.parse.quote(arguments.key_id, safe='')}")
        _print({"status": "revoked", "key_id": arguments.key_id}, f"revoked {arguments.key_id}", arguments.json)
        return 0
    except ZorivestError as exc:
        print(f"zorivest-rpc keys: {exc}", file=sys.stderr)
        return 1


def _list(backend: _Backend, as_json: bool) -> int:
    keys = backend.ask("GET", "/auth/keys")
    rows = [
        f"{key['key_id']}  {key['masked_key']}  {key['role']:<10}  {key['label']}"
        + (f"  expires {key['expires_at']}" if key["expires_at"] else "")
        for key in keys
    ]
    _print(keys, "\n".join(rows), as_json)
    return 0


def _create(backend: _Backend, arguments: argparse.Namespace) -> int:
    body = {"label": arguments.label, "role": arguments.role, "expires_in": arguments.expires_in}
    key = backend.ask("POST", "/auth/keys", body)
    if arguments.store:
        from zorivest_rpc.embedded.keystore import store_key
        from zorivest_rpc.embedded.paths import DataDir

        store_key(DataDir(arguments.data_dir), key["raw_key"], use_keyring=os.environ.get("ZORIVEST_KEYRING") != "off")
    text = f"{key['raw_key']}\nkey id {key['key_id']}, role {key['role']}; the key is not shown again"
    _print(key, text, arguments.json)
    return 0


def _print(value: Any, text: str, as_json: bool) -> None:
    print(json.dumps(value) if as_json else text)


class _Backend:
    """The backend of a directory, started if need be, with an admin session."""

    def __init__(self, data_dir: Path) -> None:
        from zorivest_rpc.embedded.locate import find_or_start, stored_key

        self._url = find_or_start(data_dir).base_url
        key = stored_key(data_dir, os.environ)
        if key is None:
            raise _Refused("no admin key at hand; set ZORIVEST_API_KEY")
        self._token: str | None = None
        self._token = self.ask("POST", "/auth/unlock", {"api_key": key})["session_token"]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
        try:
            with opener.open(request, timeout=30) as response:
                data = response.read()
        except urllib.error.HTTPError as exc:
            with exc:
                raise _Refused(_detail(exc.read(), exc.code)) from None
        except OSError as exc:
            raise _Refused(f"the backend does not answer: {exc}") from None
        return json.loads(data) if data else None


def _detail(data: bytes, status: int) -> str:
    try:
        detail = json.loads(data)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"the backend answered {status}"
    return detail if isinstance(detail, str) else json.dumps(detail)


def _parser() -> argparse.ArgumentParser:
    from zorivest_rpc.embedded.paths import default_data_dir

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--data-dir",
        type=Path,
        default=default_data_dir(os.environ),
        help="where the journal lives (ZORIVEST_DATA_DIR; default: %(default)s)",
    )
    shared.add_argument("--json", action="store_true", help="print JSON for programs")
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc keys",
        description="API keys of the embedded backend. The admin key is ZORIVEST_API_KEY or the stored one.",
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
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
