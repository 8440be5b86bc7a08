"""Definitions that were trusted once, and what is held back when they change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.pins import Identity, Pins, Verdict, definition_hash, identity_of

OPS = Server(name="ops", endpoint="https://a.example/mcp?key=hunter2")
HERE = identity_of(Profile(file="/etc/z.toml", mcp_servers=(OPS,)), OPS)


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(str(tmp_path / "data"))


def held(verdicts: dict[str, Verdict]) -> dict[str, str | None]:
    return {name: verdict.held for name, verdict in verdicts.items()}


def test_a_hash_is_of_canonical_json_and_of_what_is_shown() -> None:
    tool = {"title": "T", "name": "ä", "inputSchema": {"type": "object", "a": [1, {"z": 1, "y": 2}]}, "_meta": {"x": 1}}
    canonical = '{"inputSchema":{"a":[1,{"y":2,"z":1}],"type":"object"},"name":"ä","title":"T"}'
    assert definition_hash(tool) == hashlib.sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize("field", ["name", "title", "description", "inputSchema", "outputSchema", "annotations"])
def test_every_field_of_a_tool_counts(field: str) -> None:
    assert definition_hash({"name": "a", field: "x"}) != definition_hash({"name": "a", field: "y"})


@pytest.mark.parametrize("field", ["_meta", "icons", "execution"])
def test_what_nobody_is_shown_does_not_count(field: str) -> None:
    assert definition_hash({"name": "a", field: "x"}) == definition_hash({"name": "a"})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("prompt", ("name", "title", "description", "arguments")),
        ("resource", ("uri", "uriTemplate", "title", "description", "mimeType")),
    ],
)
def test_prompts_and_resources_have_fields_of_their_own(kind: str, fields: tuple[str, ...]) -> None:
    one = dict.fromkeys(fields, "x")
    for field in fields:
        assert definition_hash({**one, field: "y"}, kind) != definition_hash(one, kind)  # type: ignore[arg-type]
    assert definition_hash({**one, "annotations": {"a": 1}}, kind) == definition_hash(one, kind)  # type: ignore[arg-type]


def of(**versions: str) -> dict[str, dict[str, str]]:
    """Tools by their names; another version is another description."""
    return {name: {"name": name, "description": version} for name, version in versions.items()}


def digest(name: str, version: str) -> str:
    return definition_hash(of(**{name: version})[name])


def test_tofu_pins_all_that_the_first_discovery_brings_and_holds_what_comes_later(pins: Pins) -> None:
    assert held(pins.judge(HERE, "tofu", "tool", of(a="1", b="2"))) == {"a": None, "b": None}
    later = pins.judge(HERE, "tofu", "tool", of(a="1", b="changed", c="3"))
    assert held(later) == {"a": None, "b": "changed", "c": "new"}
    assert later["b"] == Verdict(digest("b", "changed"), "changed", changed=True, hash_old=digest("b", "2"))
    assert held(pins.judge(HERE, "tofu", "tool", of(b="changed"))) == {"b": "changed"}
    assert held(pins.judge(HERE, "tofu", "tool", of(b="2"))) == {"b": None}


def test_a_first_discovery_without_tools_was_the_first_one(pins: Pins) -> None:
    assert pins.judge(HERE, "tofu", "tool", of()) == {}
    assert held(pins.judge(HERE, "tofu", "tool", of(a="1"))) == {"a": "new"}


def test_a_new_tool_that_the_allowlist_names_is_pinned_and_a_change_one_is_held(pins: Pins) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"), ["a", "b"])
    assert held(pins.judge(HERE, "tofu", "tool", of(a="1", b="2", c="3"), ["a", "b"])) == {
        "a": None,
        "b": None,
        "c": "new",
    }
    assert held(pins.judge(HERE, "tofu", "tool", of(b="9"), ["a", "b"])) == {"b": "changed"}


def test_strict_publishes_nothing_before_a_person_has_pinned_it(pins: Pins) -> None:
    assert held(pins.judge(HERE, "strict", "tool", of(a="1"), ["a"])) == {"a": "unpinned"}
    pins.accept(HERE, "tool", of(a="1"))
    assert pins.judge(HERE, "strict", "tool", of(a="1")) == {"a": Verdict(digest("a", "1"), accepted=True)}
    assert pins.judge(HERE, "strict", "tool", of(a="2"))["a"] == Verdict(
        digest("a", "2"), "changed", True, hash_old=digest("a", "1")
    )


def test_what_was_trusted_at_first_sight_is_not_enough_for_strict(pins: Pins) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"))
    assert held(pins.judge(HERE, "strict", "tool", of(a="1"))) == {"a": "unpinned"}


def test_off_holds_nothing_and_knows_of_a_change(pins: Pins) -> None:
    assert pins.judge(HERE, "off", "tool", of(a="1")) == {"a": Verdict(digest("a", "1"))}
    assert pins.last_seen(HERE, "tool", "a") == digest("a", "1")
    changed = pins.judge(HERE, "off", "tool", of(a="2", b="1"))
    assert changed["a"] == Verdict(digest("a", "2"), None, changed=True, hash_old=digest("a", "1"))
    assert changed["b"] == Verdict(digest("b", "1"))
    assert pins.last_seen(HERE, "tool", "a") == digest("a", "2")
    assert pins.judge(HERE, "off", "tool", of(a="2"))["a"].changed
    pins.accept(HERE, "tool", of(a="2"))
    assert not pins.judge(HERE, "off", "tool", of(a="2"))["a"].changed


@pytest.mark.parametrize("mode", ["tofu", "strict", "off"])
def test_what_has_not_change_is_not_written_again(pins: Pins, mode: str) -> None:
    pins.accept(HERE, "tool", of(a="0"))
    for version in ("1", "2"):
        pins.judge(HERE, mode, "tool", of(a=version))
        before = os.stat(pins.path).st_ino, Path(pins.path).read_bytes()
        pins.judge(HERE, mode, "tool", of(a=version))
        assert (os.stat(pins.path).st_ino, Path(pins.path).read_bytes()) == before


def test_a_change_that_fails_is_not_written_and_leaves_no_lock(pins: Pins) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"))

    def fail_in_the_middle() -> None:
        with pins._change() as stored:
            stored.servers.clear()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert held(pins.judge(HERE, "tofu", "tool", of(a="2", b="1"), ["b"])) == {"a": "changed", "b": None}


def test_a_rug_pull_is_held_until_a_person_accepts_it(pins: Pins) -> None:
    before, after = {"name": "a", "description": "Reads."}, {"name": "a", "description": "Reads, and mails it."}
    pins.judge(HERE, "tofu", "tool", {"a": before})
    assert pins.judge(HERE, "tofu", "tool", {"a": after})["a"].held == "changed"
    assert pins.find(HERE, "tool", "a") == before
    pins.accept(HERE, "tool", {"a": after})
    assert pins.find(HERE, "tool", "a") == after
    accepted = pins.judge(HERE, "tofu", "tool", {"a": after})["a"]
    assert (accepted.held, accepted.accepted) == (None, True)


def test_kinds_are_apart(pins: Pins) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"))
    assert held(pins.judge(HERE, "tofu", "prompt", of(a="7"))) == {"a": None}
    assert held(pins.judge(HERE, "tofu", "tool", of(a="1"))) == {"a": None}


CHANGES = (
    (Profile(file="/etc/other.toml"), OPS),
    (Profile(file="/etc/z.toml", name="work"), OPS),
    (Profile(file="/etc/z.toml"), Server(name="ops2", endpoint=OPS.endpoint)),
    (Profile(file="/etc/z.toml"), Server(name="ops", endpoint="https://b.example/mcp")),
    (Profile(file="/etc/z.toml"), Server(name="ops", command="prog")),
)


@pytest.mark.parametrize(("profile", "server"), CHANGES)
def test_another_file_profile_name_or_address_is_another_server(pins: Pins, profile: Profile, server: Server) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"))
    other = identity_of(profile, server)
    assert other.key != HERE.key
    assert held(pins.judge(other, "tofu", "tool", of(a="2"))) == {"a": None}
    assert held(pins.judge(HERE, "tofu", "tool", of(a="2"))) == {"a": "changed"}


def test_an_argument_more_is_another_server() -> None:
    def identity(*args: str) -> Identity:
        return identity_of(Profile(), Server(name="a", command="prog", args=args))

    assert len({identity().key, identity("-x").key, identity("-x", "y").key, identity("-x y").key}) == 4


def test_the_file_is_private_and_holds_no_address(pins: Pins) -> None:
    pins.judge(HERE, "tofu", "tool", of(a="1"))
    assert os.stat(pins.path).st_mode & 0o777 == 0o600
    text = Path(pins.path).read_text()
    assert "hunter2" not in text
    assert "a.example" not in text
    (known,) = json.loads(text)["servers"].values()
    assert (known["file"], known["profile"], known["server"]) == ("/etc/z.toml", "default", "ops")
    assert sorted(os.listdir(os.path.dirname(pins.path))) == ["mcp-pins.json", "mcp-pins.json.lock"]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"{}", b'{"version": "x"}', b'{"version": 1}', b'{"pins": 5}', b"\xff", b"[" * 100_000),
        *(b'{"version": 2, "servers": {}}', b'{"servers": {"\xff": {}}}', b'{"servers": {"a": {"file": ""}}}'),
        b'{"servers": {"a": {"file": "", "profile": "", "server": ""}}}',
    ],
)
@pytest.mark.parametrize("mode", ["tofu", "strict", "off"])
def test_a_damaged_file_is_not_taken_for_a_first_start(pins: Pins, content: bytes, mode: str) -> None:
    os.makedirs(os.path.dirname(pins.path))
    Path(pins.path).write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read; put it back; or set pin"):
        pins.judge(HERE, mode, "tool", of(a="1"))
    with pytest.raises(ConfigError):
        pins.accept(HERE, "tool", of(a="1"))
    assert Path(pins.path).read_bytes() == content


def test_what_another_process_pinned_meanwhile_stays(pins: Pins) -> None:
    other = Pins(os.path.dirname(pins.path))
    read = pins._read
    calls: list[int] = []

    def read_and_be_overtaken() -> object:
        stored = read()
        calls.append(1)
        if len(calls) == 1:
            other.judge(HERE, "tofu", "tool", of(a="theirs"))
        return stored

    pins._read = read_and_be_overtaken  # type: ignore[method-assign, assignment]
    pins.judge(HERE, "tofu", "tool", of(a="ours"))
    assert held(other.judge(HERE, "tofu", "tool", of(a="ours"))) == {"a": "changed"}


def test_a_removed_server_is_forgotten_alone(pins: Pins) -> None:
    wiki = identity_of(Profile(file="/etc/z.toml"), Server(name="wiki", command="w"))
    for identity in (HERE, wiki):
        pins.judge(identity, "tofu", "tool", of(a="1"))
    pins.forget("/etc/z.toml", "default", ["ops"])
    assert held(pins.judge(HERE, "tofu", "tool", of(a="2"))) == {"a": None}
    assert held(pins.judge(wiki, "tofu", "tool", of(a="2"))) == {"a": "changed"}


def test_a_very_large_definition_is_pinned_by_its_hash_alone(pins: Pins) -> None:
    large = of(a="x" * 70_000)
    pins.judge(HERE, "tofu", "tool", large)
    assert pins.find(HERE, "tool", "a") is None
    assert held(pins.judge(HERE, "tofu", "tool", large)) == {"a": None}
    assert held(pins.judge(HERE, "tofu", "tool", of(a="y" * 70_000))) == {"a": "changed"}
