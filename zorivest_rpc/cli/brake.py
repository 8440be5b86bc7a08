"""What the commands `stop` and `unlock` share: the way to the guard of a journal, and its state in words."""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol

from zorivest_rpc.cli.admin import Admin, RequestRefused, add_data_dir, clients_of, place_of
from zorivest_rpc.cli.checks.web import NoRedirects

__all__ = ["Guarded", "add_place", "clients_meant", "describe_lock", "open_backend"]

_SECONDS = 30
_UNKNOWN_FIELD = (400, 422)
_SETTERS = {"person": "a person", "tool": "a tool", "rate": "the rate limits"}


class Guarded(Protocol):
    """A backend with a session."""

    def ask(self, method: str, path: str, body: Any = None) -> Any: ...


def add_place(parser: argparse.ArgumentParser) -> None:
    """Whose guard it is: that of a journal on this machine, or of a backend that is named."""
    add_data_dir(parser)
    parser.add_argument(
        "--api-url",
        help="a backend that runs already (ZORIVEST_API_URL); its key is ZORIVEST_API_KEY",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def open_backend(arguments: argparse.Namespace) -> Guarded:
    """A session of the named backend, else of the embedded one, which is started if need be: its guard decides for
    whatever starts it next."""
    if arguments.tenant is None and (url := _url(arguments)):
        return _Remote(url, os.environ.get("ZORIVEST_API_KEY"))
    place = place_of(arguments, may_be_remote=True)
    if (tenant := place.remote) is None:
        return Admin.at(place)
    key, variable = tenant.key_of(os.environ), tenant.api_key_env or ""
    return _Remote(
        tenant.where, key, authorization=tenant.authorization, variable=variable, client=tenant.client_header
    )


def clients_meant(arguments: argparse.Namespace) -> list[str] | None:
    """All that are served, where the words name neither one of them nor another backend."""
    tenants = None if arguments.api_url else clients_of(arguments)
    return None if tenants is None else [id for id, tenant in sorted(tenants.tenants.items()) if tenant.enabled]


def _url(arguments: argparse.Namespace) -> str | None:
    """With clients the variable means none of them."""
    return arguments.api_url or (clients_of(arguments) is None and os.environ.get("ZORIVEST_API_URL")) or None


def describe_lock(status: Mapping[str, Any]) -> str:
    """Who locked, when and why. The reason may be an agent's own text, so nothing in it moves the cursor."""
    reason = "".join(char if char.isprintable() else "?" for char in str(status.get("lock_reason") or "none given"))
    setter = _SETTERS.get(str(status.get("locked_by")), "an unknown party")
    return f"locked by {setter} since {status.get('locked_at') or 'an unknown time'}, reason: {reason}"


class _Remote:
    """A backend across the network; one that does not know who locks is asked without it."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        authorization: str | None = None,
        variable: str = "ZORIVEST_API_KEY",
        client: str | None = None,
    ) -> None:
        """`authorization` is sent as it is, in place of a session that a key opens. `client` tells the backend whose
        guard is meant."""
        from zorivest_rpc.serving.backend.http import normalise

        self._base = normalise(url)
        self._client = client
        self._authorization = authorization
        if authorization is not None:
            return
        if not key:
            raise RequestRefused(f"no key at hand; set {variable}")
        self._authorization = f"Bearer {self.ask('POST', '/auth/unlock', {'api_key': key})['session_token']}"

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self._send(method, path, body)
        if status in _UNKNOWN_FIELD and isinstance(body, dict) and "by" in body:
            older = {name: value for name, value in body.items() if name not in ("by", "locked_at")}
            status, answer = self._send(method, path, older)
        if 200 <= status < 300:
            return answer
        detail = answer.get("detail") if isinstance(answer, dict) else None
        raise RequestRefused(detail if isinstance(detail, str) else f"the backend answered {status}")

    def _send(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        if self._client is not None:
            headers["client"] = self._client
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, method=method, data=data, headers=headers)
        # the key is for the backend alone: no proxy sees it, and no redirect takes it elsewhere
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects)
        try:
            with opener.open(request, timeout=_SECONDS) as response:
                return response.status, _decode(response.read())
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, _decode(exc.read())
        except OSError as exc:
            raise RequestRefused(f"{self._base} does not answer: {exc}") from None


def _decode(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
