"""Where the first key is kept: a keyring that works, else a private file."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.keystore import read_key, store_key


class Ring(ModuleType):
    """Stands in for the keyring package."""

    def __init__(self, priority: float = 5, broken: bool = False, forgetful: bool = False) -> None:
        super().__init__("keyring")
        self.priority, self.broken, self.forgetful = priority, broken, forgetful
        self.kept: dict[tuple[str, str], str] = {}

    def get_keyring(self) -> SimpleNamespace:
        return SimpleNamespace(priority=self.priority)

    def set_password(self, service: str, name: str, value: str) -> None:
        if self.broken:
            raise RuntimeError("no session bus")
        if not self.forgetful:
            self.kept[service, name] = value

    def get_password(self, service: str, name: str) -> str | None:
        if self.broken:
            raise RuntimeError("no session bus")
        return self.kept.get((service, name))


def test_a_working_keyring_is_preferred_and_no_file_is_written(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", Ring())
    directory.create()
    key = new_api_key()
    assert store_key(directory, key) == "keyring"
    assert not directory.key_file.exists()
    assert read_key(directory) == key
    assert read_key(directory, use_keyring=False) is None


@pytest.mark.parametrize("ring", [None, Ring(priority=0), Ring(broken=True), Ring(forgetful=True)])
def test_without_a_usable_keyring_the_key_is_in_a_private_file(
    ring: Ring | None, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", ring)
    directory.create()
    key = new_api_key()
    assert read_key(directory) is None
    assert store_key(directory, key) == "file"
    assert directory.key_file.stat().st_mode & 0o777 == 0o600
    assert read_key(directory) == key
