"""Who may act for which tenants: an access key is found by its hash, and opens the ids of its entry.

A tenant that is disabled is granted to no caller, so that it cannot be told from one that does not exist."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest

from zorivest_rpc.tenants.config import Access, Tenants

__all__ = ["find_access", "granted", "hash_key", "is_granted_all"]


def granted(tenants: Tenants, access: Access | None) -> tuple[str, ...]:
    """The ids that a caller may name, sorted. Without an entry there are no rules, or the caller is the operator."""
    wanted = tenants.tenants if access is None or access.clients == "*" else access.clients
    return tuple(sorted(id for id in wanted if (tenant := tenants.tenants.get(id)) is not None and tenant.enabled))


def is_granted_all(tenants: Tenants, access: Access | None) -> bool:
    """Whether a caller may know of every tenant, of one that is disabled as well."""
    return access is None or access.clients == "*" or tenants.tenants.keys() <= set(access.clients)


def find_access(tenants: Tenants, bearer: str) -> Access | None:
    """The entry of an access key. All entries are compared, each in constant time, whichever of them fits."""
    digest = hash_key(bearer)
    entry: Access | None = None
    for each in tenants.access:
        if compare_digest(each.key_sha256, digest):
            entry = each
    return entry


def hash_key(bearer: str) -> str:
    """What is kept of an access key. Ours have 256 random bits, so that a slow hash would protect nothing more."""
    return sha256(bearer.encode(errors="surrogatepass")).hexdigest()
