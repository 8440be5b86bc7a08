"""zorivest_diagnose: what is known of backend, database, guard, providers, this server and the client, in every state.

Rule 1: it never fails. Each probe that throws, is refused, is late or answers nonsense counts as missing.
Rule 2: nothing is passed on. Every value is picked by name and checked for its kind, so an unexpected field
        cannot reach the report; a last look over the finished report removes what has the form of a credential."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from zorivest_rpc.errors import BackendError, ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.backend.interface import Auth, Backend, Request
from zorivest_rpc.serving.modes.detect import Profile
from zorivest_rpc.serving.tools.kit import Kit, entries

__all__ = ["Diagnostics", "guard_state", "without_credentials"]

Summary: TypeAlias = Callable[[bool], dict[str, Json]]
"""The metrics of this server's tools; True adds the numbers of each."""

_PROBES: Final[Mapping[str, Auth]] = {
    "/health": "none",
    "/version/": "none",
    "/mcp-guard/status": "if_any",
    "/market-data/providers": "if_any",
}
_SECONDS: Final = 5.0
_MOST_PROVIDERS: Final = 100
_UNAVAILABLE: Final[dict[str, Json]] = {"status": "unavailable"}
_STATES: Final = frozenset(
    ("ok", "healthy", "starting", "degraded", "unhealthy", "locked", "shutting_down", "stopping", "error")
)
_CONTEXTS: Final = frozenset(("frozen", "installed", "dev"))
_VERSION: Final = re.compile(r"v?[0-9]{1,6}(?:\.[0-9]{1,6}){0,3}(?:[-+.]?[0-9A-Za-z.+-]{1,24})?\Z")
_NAME: Final = re.compile(r"[\w .&+()/-]{1,48}\Z")
_CREDENTIAL: Final = re.compile(
    r"(?:zrv_sk_|ctk_|tok_|sk-|Bearer\s+|Basic\s+|ENC:)[^\s\"']+"  # keys, tokens, headers, stored secrets
    r"|eyJ[\w-]{8,}\.[\w.-]+"  # JSON web tokens
    r"|(?<=://)[^/\s@]+@",  # a user and password in an address
    re.IGNORECASE,
)


class Diagnostics:
    """`summary` and `uptime_minutes` are of this server's metrics, `profile` tells who a session's client is."""

    def __init__(
        self,
        kit: Kit,
        summary: Summary,
        uptime_minutes: Callable[[], int],
        profile: Callable[[Session], Profile],
        *,
        version: str,
        runtime: str,
        gated: Callable[[Session], Iterable[str]] = lambda session: (),
        unlisted: Callable[[Session], Iterable[str]] = lambda session: (),
        seconds: float = _SECONDS,
        neighbour: Callable[[str], Awaitable[str | None]] | None = None,
        upstreams: Callable[[Call], list[dict[str, Json]] | None] = lambda call: None,
        about: Callable[[Call, bool], dict[str, Json]] = lambda call, verbose: {},
        open_session: Callable[[Call], Awaitable[object]] | None = None,
    ) -> None:
        """`runtime` names what this server runs on, such as Python 3.11.8; `gated` names the tools before which the
        server asks a session's user, `unlisted` those that its list has no room for; `seconds` is how long a probe may
        take. `about` has members that this call is told as well, or instead. `open_session` where no session was opened
        when the server started: what needs one is asked in it, if the backend gives one."""
        self._open_session = open_session
        self._about = about
        self._kit = kit
        self._summary = summary
        self._uptime_minutes = uptime_minutes
        self._profile = profile
        self._version = version
        self._gated = gated
        self._unlisted = unlisted
        self._runtime = runtime
        self._seconds = seconds
        self._upstreams = upstreams
        self._neighbour = neighbour  # says what else listens where a backend usually does

    def handlers(self) -> dict[str, Handler]:
        return {"diagnose": self.diagnose}

    async def diagnose(self, call: Call) -> Outcome:
        verbose = self._kit.arguments(call)["verbose"]
        backend = self._kit.backend_for(call)
        beside = asyncio.ensure_future(self._beside(call, backend.base_url))
        if self._open_session is not None:
            with suppress(ToolError, TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._open_session(call)
        replies = await asyncio.gather(*(self._probe(backend, path, auth) for path, auth in _PROBES.items()))
        health, version, guard, providers = (None if isinstance(found, ToolError) else found[0] for found in replies)
        report: dict[str, Json] = {
            "backend": _backend(health, reachable=not isinstance(replies[0], ToolError)) | _address(backend.base_url),
            "version": _version(version),
            "database": {"unlocked": _unlock_state(health, reachable=not isinstance(replies[0], ToolError))},
            "guard": guard_state(guard),
            "providers": _providers(providers),
            "mcp_server": {
                "uptime_minutes": self._uptime_minutes(),
                "node_version": self._runtime,
                "version": self._version,
            },
            "client": self._client(call),
            "metrics": self._summary(verbose),
            **self._about(call, verbose),
        }
        upstreams = self._upstreams(call)
        if upstreams is not None:
            report["upstreams"] = upstreams
        problems = [
            _problem(path, found) for path, found in zip(_PROBES, replies, strict=True) if isinstance(found, ToolError)
        ]
        if problems:
            report["problems"] = problems
            report["next"] = _advice(replies[0], embedded=not self._kit.desktop(call))
        note = await beside
        if note is not None:
            report["note"] = note
        return self._kit.give(call, without_credentials(report))

    async def _beside(self, call: Call, url: str) -> str | None:
        if self._neighbour is None or self._kit.desktop(call):  # who named a backend has chosen
            return None
        return await self._neighbour(url)

    async def _probe(self, backend: Backend, path: str, auth: Auth) -> tuple[Json] | ToolError:
        """The value in a tuple, as it may be anything, or why there is none."""
        try:
            async with asyncio.timeout(self._seconds * 1.2):  # whatever a backend makes of its own limit
                return ((await backend.ask(Request("GET", path, auth=auth, timeout=self._seconds, urgent=True))).value,)
        except ToolError as error:
            return error
        except TimeoutError:
            return ToolError("No answer in time.", code="backend_timeout", next="Try again in a moment.")

    def _client(self, call: Call) -> dict[str, Json]:
        """How this client is treated, and why."""
        profile = self._profile(call.session)
        unlisted = list(self._unlisted(call.session))
        return {
            "client": profile.client,
            "mode": str(profile.mode),
            "source": profile.source,
            "reason": profile.reason,
            "revision": call.session.revision.name,
            "results": profile.results,
            "asks_for": list(profile.traits.asks_for),
            "confirmed_by_server": list(self._gated(call.session)),
            "tool_limit": profile.traits.tool_limit,
            **({"not_listed": unlisted} if unlisted else {}),
        }


def _backend(health: Json, *, reachable: bool) -> dict[str, Json]:
    if not reachable:
        return {"reachable": False, "status": "unreachable"}
    return {"reachable": True, "status": _one_of(_STATES, _of(health, "status"))}


def _address(url: str) -> dict[str, Json]:
    """Where the backend is, without anything that does not belong into an address."""
    if url.startswith("unix:"):
        return {"url": url}
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return {}
    return {"url": f"{parts.scheme}://{parts.hostname}{port}{parts.path}"} if parts.hostname else {}


def _version(answer: Json) -> dict[str, Json]:
    return {
        "version": _matching(_VERSION, _of(answer, "version")) or "unknown",
        "context": _one_of(_CONTEXTS, _of(answer, "context")),
    }


def _unlock_state(health: Json, *, reachable: bool) -> Json:
    if not reachable:
        return False
    for found in (_of(_of(health, "database"), "unlocked"), _of(health, "database_unlocked")):
        if isinstance(found, bool):
            return found
    return "unknown"


def guard_state(answer: Json) -> dict[str, Json]:
    """The guard as the report shows it; a guard that does not say whether it is locked is not available."""
    locked = _of(answer, "is_locked")
    if not isinstance(locked, bool):
        return dict(_UNAVAILABLE)
    count = _of(answer, "call_count")
    if type(count) is not int:
        count = _of(answer, "recent_calls_1hr")
    state: dict[str, Json] = {
        "enabled": _of(answer, "is_enabled") is True,
        "locked": locked,
        "call_count": count if type(count) is int else None,
    }
    reason = _of(answer, "lock_reason")
    if locked and isinstance(reason, str):
        state["reason"] = reason[:100]
    return state


def _providers(answer: Json) -> list[dict[str, Json]]:
    """Three fields and no others; an entry without a proper name is left out."""
    found = []
    for entry in entries(answer)[:_MOST_PROVIDERS]:
        name = _matching(_NAME, entry.get("name", entry.get("provider_name")))
        if name is not None:
            has_key = entry.get("has_key", entry.get("has_api_key"))
            found.append({"name": name, "is_enabled": entry.get("is_enabled") is True, "has_key": has_key is True})
    return found


def _problem(path: str, error: ToolError) -> dict[str, Json]:
    """Our own code for it; the words of a backend that is out of order are not repeated."""
    problem: dict[str, Json] = {"probe": f"GET {path}", "code": error.code}
    if isinstance(error, BackendError):
        problem["status"] = error.status
    return problem


def _advice(health: tuple[Json] | ToolError, *, embedded: bool) -> str:
    if not isinstance(health, ToolError):
        return "The backend runs; what is missing may need a session (check the API key) or a newer backend."
    if isinstance(health, BackendError):
        return "Something answers at this address, but not as a healthy backend; check the API URL and its log."
    if embedded:
        return "Call any tool: the embedded backend is started by itself. If it is not, startup.log says why."
    return "Start the backend or correct the API URL, then call zorivest_diagnose again."


def _of(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _one_of(known: frozenset[str], value: Json) -> str:
    """A word that means something here; any other could be anything."""
    return value if isinstance(value, str) and value in known else "unknown"


def _matching(pattern: re.Pattern[str], value: Json) -> str | None:
    return value if isinstance(value, str) and pattern.match(value) else None


def without_credentials(value: Json) -> Json:
    if isinstance(value, str):
        return _CREDENTIAL.sub("…", value)
    if isinstance(value, dict):
        return {without_credentials(key): without_credentials(entry) for key, entry in value.items()}
    return [without_credentials(entry) for entry in value] if isinstance(value, list) else value
