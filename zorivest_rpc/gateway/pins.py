"""What each upstream's definitions were when they were trusted, and which of them have changed since.

The file lies in the data directory, never beside a configuration that another person may have written. A server is
known by the configuration file, the profile, its name, and where it is or what is started: a change of any of these is
another server, which has to be trusted anew. What is secret in a URL or an argument is kept as a hash alone."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

import msgspec

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.private_files import alone, write_private

__all__ = ["PINNED_FIELDS", "PINS_FILE", "Identity", "Pins", "Verdict", "definition_hash", "identity_of"]

PINS_FILE: Final = "mcp-pins.json"
_LARGEST_KEPT: Final = 64 * 1024
Kind = Literal["tool", "prompt", "resource"]
PINNED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "tool": ("name", "title", "description", "inputSchema", "outputSchema", "annotations"),
    "prompt": ("name", "title", "description", "arguments"),
    "resource": ("uri", "uriTemplate", "title", "description", "mimeType"),
}


class Identity(NamedTuple):
    """Which server a pin is of."""

    file: str
    profile: str
    server: str
    target: str  # a hash of the endpoint, or of the command with its arguments

    @property
    def key(self) -> str:
        return _digest(list(self))


class Verdict(NamedTuple):
    """What becomes of a definition. `held` is why it is not published (`changed`, `new`, `unpinned`), or None.

    `changed` is true where it is not the pinned one, held or (with pins off) not: an approval does not count then.
    `accepted`: a person has looked at exactly this definition, so what the scan found in it does not hold it."""

    hash: str
    held: str | None = None
    changed: bool = False
    accepted: bool = False
    hash_old: str | None = None


class _Pin(msgspec.Struct, omit_defaults=True):
    hash: str
    by_person: bool = False
    seen: str | None = None  # the latest that was seen with pins off
    definition: dict[str, Any] | None = None  # to show a change by; not kept of a very large one


class _Known(msgspec.Struct):
    """The pins of one server; the first three say which it is, for people who read the file."""

    file: str
    profile: str
    server: str
    pins: dict[str, dict[str, _Pin]]


class _File(msgspec.Struct):
    servers: dict[str, _Known]  # never left out: what is no file of pins must not count as one that has none
    version: Literal[1] = 1


def definition_hash(definition: Mapping[str, Any], kind: Kind = "tool") -> str:
    """SHA-256 of the canonical JSON (sorted keys, no spaces) of what a person would look at."""
    return _digest(_pick_fields(definition, kind))


def _pick_fields(definition: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    return {key: definition[key] for key in PINNED_FIELDS[kind] if key in definition}


def identity_of(profile: Profile, server: Server) -> Identity:
    target: list[Any] = [server.endpoint] if server.endpoint else [server.command, *server.args]
    if server.tenant:  # each tenant's own connection is trusted on its own
        target = [*target, {"tenant": server.tenant}]
    return Identity(os.path.realpath(profile.file) if profile.file else "", profile.name, server.name, _digest(target))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def _digest(value: Any) -> str:
    return sha256(_canonical(value)).hexdigest()


class Pins:
    """The pins of a data directory. Every change reads the file anew, alone, and replaces it as a whole, because the
    servers of several editor windows share it."""

    def __init__(self, data_dir: str) -> None:
        self.path = os.path.join(data_dir, PINS_FILE)

    def judge(
        self,
        identity: Identity,
        mode: str,
        kind: Kind,
        offered: Mapping[str, Mapping[str, Any]],
        named: Collection[str] = (),
    ) -> dict[str, Verdict]:
        """A verdict for each definition that a successful discovery brought, by its name at the server.

        `named` are the names that stand literally in the allowlist: a new one of these was asked for. With `tofu` the
        first discovery pins all, and later ones what is new and named; with `off` the first ones stay on record, so
        that a change can be told."""
        hashes = {name: definition_hash(definition, kind) for name, definition in offered.items()}
        known = self._read().servers.get(identity.key)
        before = None if known is None else known.pins.get(kind)
        if mode == "strict":
            return {name: _judge_strictly((before or {}).get(name), new) for name, new in hashes.items()}
        trusted = [
            name for name in offered if before is None or (name not in before and (mode == "off" or name in named))
        ]
        if trusted or before is None:
            self._store(identity, kind, {name: offered[name] for name in trusted}, by_person=False)
        verdicts = {}
        for name, new in hashes.items():
            pin = _Pin(new) if name in trusted else (before or {}).get(name)
            verdicts[name] = _judge(pin, new, mode)
        if mode == "off":
            self._note_seen(identity, kind, hashes)
        return verdicts

    def accept(self, identity: Identity, kind: Kind, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        """A person has looked at these definitions."""
        self._store(identity, kind, definitions, by_person=True)

    def find(self, identity: Identity, kind: Kind, name: str) -> dict[str, Any] | None:
        """The definition that is pinned, where it was kept."""
        known = self._read().servers.get(identity.key)
        pin = known.pins.get(kind, {}).get(name) if known else None
        return None if pin is None else pin.definition

    def last_seen(self, identity: Identity, kind: Kind, name: str) -> str | None:
        """The hash that was told last of a definition, so that a change is logged once."""
        known = self._read().servers.get(identity.key)
        pin = known.pins.get(kind, {}).get(name) if known else None
        return None if pin is None else pin.seen or pin.hash

    def forget(self, file: str, profile: str, servers: Iterable[str]) -> None:
        """Drop what is known of servers that were removed from a configuration."""
        names = set(servers)
        place = os.path.realpath(file)
        with self._change() as stored:
            stored.servers = {
                key: known
                for key, known in stored.servers.items()
                if not ((known.file, known.profile) == (place, profile) and known.server in names)
            }

    def _store(
        self, identity: Identity, kind: Kind, definitions: Mapping[str, Mapping[str, Any]], *, by_person: bool
    ) -> None:
        with self._change() as stored:
            known = stored.servers.get(identity.key)
            if known is None:
                known = stored.servers[identity.key] = _Known(identity.file, identity.profile, identity.server, {})
            pins = known.pins.setdefault(kind, {})
            for name, definition in definitions.items():
                # Two windows discover at once: what the other one pinned meanwhile is not replaced without a person.
                if by_person or name not in pins:
                    kept = _pick_fields(definition, kind)
                    small = len(_canonical(kept)) <= _LARGEST_KEPT
                    pins[name] = _Pin(_digest(kept), by_person, definition=kept if small else None)

    def _note_seen(self, identity: Identity, kind: Kind, offered: Mapping[str, str]) -> None:
        known = self._read().servers.get(identity.key)
        pins = known.pins.get(kind, {}) if known else {}
        if all((pins[name].seen or pins[name].hash) == new for name, new in offered.items() if name in pins):
            return
        with self._change() as stored:
            for name, new in offered.items():
                pin = stored.servers[identity.key].pins[kind].get(name)
                if pin is not None:
                    pin.seen = new if new != pin.hash else None

    def _read(self) -> _File:
        try:
            with open(self.path, "rb") as file:
                return msgspec.json.decode(file.read(), type=_File)
        except FileNotFoundError:
            return _File(servers={})
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Without it every definition would count as seen for the first time, a changed one too.
            # With `tofu` a missing file would have them all pinned unseen.
            advice = (
                'put it back; or set pin = "strict", move it away, and look at them all with "zorivest-rpc mcp pin"'
            )
            raise ConfigError(self.path, f"cannot be read; {advice}") from None

    @contextmanager
    def _change(self) -> Iterator[_File]:
        """The file read, changed and written while no other process does; not written where the change fails."""
        try:
            with alone(self.path):
                stored = self._read()
                yield stored
                write_private(self.path, msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")
        except OSError as exc:  # what cannot be kept would count as seen for the first time, every time
            raise ConfigError(self.path, f"cannot be written: {exc.strerror or exc}") from None


def _judge_strictly(pin: _Pin | None, new: str) -> Verdict:
    if pin is not None and pin.by_person and pin.hash == new:
        return Verdict(new, accepted=True)
    changed = pin is not None and pin.hash != new
    return Verdict(new, "changed" if changed else "unpinned", changed, hash_old=pin.hash if pin else None)


def _judge(pin: _Pin | None, new: str, mode: str) -> Verdict:
    if pin is None:
        return Verdict(new, "new")
    if pin.hash == new:
        return Verdict(new, accepted=pin.by_person)
    return Verdict(new, None if mode == "off" else "changed", changed=True, hash_old=pin.hash)
