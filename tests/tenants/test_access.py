"""Which tenants a key opens, and that looking for it tells nothing of the keys that are there."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import Any

import pytest

from tests.tenants.test_config import ACME, load_text
from zorivest_rpc.tenants.access import find_access, granted
from zorivest_rpc.tenants.config import Tenants


def entry(key: str, name: str, clients: Any) -> dict[str, Any]:
    return {"keySha256": sha256(key.encode()).hexdigest(), "name": name, "clients": clients}


@pytest.fixture
def tenants() -> Tenants:
    return load_text(
        {
            "b": ACME,
            "a": ACME,
            "off": {**ACME, "enabled": False},
            "$access": [entry("one", "desk-1", ["B", "off"]), entry("two", "desk-2", "*"), entry("é", "desk-3", ["a"])],
        }
    )


@pytest.mark.parametrize(("key", "ids"), [("one", ("b",)), ("two", ("a", "b")), ("é", ("a",))])
def test_a_key_opens_the_enabled_tenants_of_its_entry(tenants: Tenants, key: str, ids: tuple[str, ...]) -> None:
    found = find_access(tenants, key)
    assert found is not None
    assert granted(tenants, found) == ids


@pytest.mark.parametrize("key", ["", "One", "one ", "three", "\udcff", "x\ud800", sha256(b"one").hexdigest()])
def test_another_key_opens_nothing(tenants: Tenants, key: str) -> None:
    assert find_access(tenants, key) is None


def test_without_an_entry_every_enabled_tenant_is_granted(tenants: Tenants) -> None:
    assert granted(tenants, None) == ("a", "b")


@pytest.mark.parametrize("key", ["one", "é", "none"])
def test_every_entry_is_compared_in_constant_time(tenants: Tenants, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def watch(left: str, right: str) -> bool:
        compared.append((left, right))
        return compare_digest(left, right)

    monkeypatch.setattr("zorivest_rpc.tenants.access.compare_digest", watch)
    find_access(tenants, key)
    digest = sha256(key.encode()).hexdigest()
    assert compared == [(each.key_sha256, digest) for each in tenants.access]
