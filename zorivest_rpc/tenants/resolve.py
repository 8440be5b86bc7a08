"""From a request to the tenant that it is for: the one place that reads `clientId` or the X-Client-ID header.

Every step is a lookup in what was built at the start. A tenant that is disabled or not granted takes the same steps as
one that does not exist. There is no default: a request that names no tenant has none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

import msgspec

from zorivest_rpc.mcp.call import Scope
from zorivest_rpc.mcp.protocol.session import RequestHeaders
from zorivest_rpc.tenants.access import find_access, granted, is_granted_all
from zorivest_rpc.tenants.config import Access, Tenants, normalise_id
from zorivest_rpc.tenants.context import ARGUMENT, CLIENT_KEY, Contexts
from zorivest_rpc.tenants.refusals import (
    ClientRefused,
    conflict,
    enumerate_ids,
    invalid,
    missing,
    more_than_one_header,
    unknown,
)

__all__ = ["ARGUMENT", "EVERY", "HEADER", "Grants", "HeaderUse", "Resolver", "principal_of_access"]

HEADER: Final = "X-Client-ID"
EVERY: Final = "*"
HeaderUse: TypeAlias = Literal["fallback", "ignore", "require"]
_HOUR: Final = 3600.0
_MOST_TOLD: Final = 1024
log: Final = logging.getLogger("zorivest_rpc.tenants")


class Grants(msgspec.Struct, frozen=True):
    """The tenants of one caller: their ids, sorted, and how they are told in a refusal."""

    ids: tuple[str, ...]
    known: frozenset[str]
    told: str
    are_all: bool = False  # whether the caller may know of every tenant that is configured

    def others(self, id: str) -> str:
        return enumerate_ids(tuple(each for each in self.ids if each != id))


_NONE: Final = Grants((), frozenset(), enumerate_ids(()))


def principal_of_access(access: Access) -> str:
    """Who an access key stands for. Its grants are part of it: what was begun under others is another caller's."""
    clients = access.clients if isinstance(access.clients, str) else ",".join(sorted(access.clients))
    return "access:" + sha256(f"{access.key_sha256}\0{clients}".encode()).hexdigest()[:32]


class Resolver:
    """Built for one set of tenants and never changed; another set is another resolver."""

    def __init__(
        self,
        contexts: Contexts,
        *,
        header: HeaderUse = "fallback",
        own: str | None = None,
        local: str | None = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own` stands for the header where requests have none, as over stdio. `local` is the principal of a caller
        that needs no key, to whom every tenant is granted; None where there is no such caller."""
        tenants = contexts.tenants
        self._contexts = contexts
        self._tenants = tenants
        self._header_use = header
        self._own = own
        self._clock = clock
        self._told: dict[str, float] = {}
        self._grants: dict[str, Grants] = {}
        if local is not None:
            self._grants[local] = _grants(tenants, None)
        for access in tenants.access:
            self._grants[principal_of_access(access)] = _grants(tenants, access)

    @property
    def tenants(self) -> Tenants:
        return self._tenants

    def grants(self, principal: str) -> Grants:
        return self._grants.get(principal, _NONE)

    def find_principal(self, bearer: str) -> str | None:
        """Who shows this access key; None for a key that is none."""
        access = find_access(self._tenants, bearer)
        return None if access is None else principal_of_access(access)

    # --- a call

    def resolve(
        self, principal: str, headers: RequestHeaders | None, arguments: Mapping[str, Any], *, every: bool = False
    ) -> tuple[dict[str, Any], Scope]:
        """The arguments without the tenant's id, and the scope of the call; ClientRefused says what to correct.

        `every`: this call may be for all granted tenants at once."""
        rest = dict(arguments)
        given = rest.pop(ARGUMENT, None)
        grants = self._grants.get(principal, _NONE)
        named = self._from_header(headers) if self.may_name(headers) else None
        if named is None and type(given) is str and given in grants.known:  # nearly every call
            return rest, self._contexts.of(given).scope
        if is_absent(given):
            return rest, self._by_header(principal, grants, named, headers is not None)
        if every and grants.ids and isinstance(given, str) and given.strip() == EVERY:
            if named is not None:
                raise conflict(EVERY, named)
            return rest, Scope(
                EVERY, {CLIENT_KEY: {"id": EVERY, "name": None}}, "For every client: ", None, {ARGUMENT: EVERY}
            )
        id = self._read(given, grants)
        if named is not None and normalise_id(named) != id:
            raise conflict(id, named)
        return rest, self._scope(principal, grants, id, given)

    def may_name(self, headers: RequestHeaders | None) -> bool:
        """Whether a request with these headers can have named a tenant outside its arguments."""
        return headers is not None or self._own is not None

    def by_header(self, principal: str, headers: RequestHeaders | None) -> str | None:
        """The tenant that a list is for, where its request has a good header."""
        try:
            named = self._from_header(headers)
        except ClientRefused:
            return None
        id = None if named is None else normalise_id(named)
        return id if id in self.grants(principal).known else None

    def resolve_named(self, principal: str, given: Any) -> Scope:
        """As `resolve`, where the id stands alone, as in a URI; without a header."""
        grants = self._grants.get(principal, _NONE)
        if is_absent(given):
            raise missing(grants.told)
        return self._scope(principal, grants, self._read(given, grants), given)

    def check_inner(self, scope: Scope, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a tool that is run by another one: its own id may be repeated, and no other be named."""
        given = arguments.get(ARGUMENT)
        if not is_absent(given) and (not isinstance(given, str) or normalise_id(given) != scope.name):
            raise conflict(scope.name, given, inner=True)
        return {name: value for name, value in arguments.items() if name != ARGUMENT}

    def _by_header(self, principal: str, grants: Grants, named: str | None, deprecated: bool) -> Scope:
        if named is None:
            raise missing(grants.told)
        scope = self._scope(principal, grants, self._read(named, grants), named)
        if not deprecated:  # `own` is no header that anybody sent
            return scope
        self._tell(principal, scope.name)
        return self._contexts.of(scope.name).scope_by_header

    def _from_header(self, headers: RequestHeaders | None) -> str | None:
        """The header's one value; None where it says nothing, or is not asked."""
        if self._header_use == "ignore":
            return None
        if headers is None:
            value = self._own
        else:
            value = headers.get(HEADER)
            if value is not None and len(headers.getall(HEADER)) > 1:
                raise more_than_one_header()
        if value is None or not value.strip():
            return None
        if "," in value:
            raise more_than_one_header()
        return value

    def _read(self, given: Any, grants: Grants) -> str:
        id = normalise_id(given) if isinstance(given, str) else None
        if id is None:
            raise invalid(given, grants.told)
        return id

    def _scope(self, principal: str, grants: Grants, id: str, given: Any) -> Scope:
        if id not in grants.known:
            self._log_reason(principal, id)
            raise unknown(given, grants.told)
        return self._contexts.of(id).scope

    def _log_reason(self, principal: str, id: str) -> None:
        tenant = self._tenants.tenants.get(id)
        why = "is not configured" if tenant is None else "is not granted" if tenant.enabled else "is disabled"
        log.info("tenant=%s principal=%s: a call was refused, the client %s", id, principal or "local", why)

    def _tell(self, principal: str, id: str) -> None:
        """Once an hour for each caller."""
        now = self._clock()
        if now - self._told.get(principal, float("-inf")) < _HOUR:
            return
        if len(self._told) >= _MOST_TOLD:
            self._told.clear()
        self._told[principal] = now
        log.warning("tenant=%s principal=%s: chosen by the deprecated header %s", id, principal or "local", HEADER)


def is_absent(given: Any) -> bool:
    return given is None or (isinstance(given, str) and not given.strip())


def _grants(tenants: Tenants, access: Access | None) -> Grants:
    ids = granted(tenants, access)
    return Grants(ids, frozenset(ids), enumerate_ids(ids), is_granted_all(tenants, access))
