"""What a server repeats of the credentials that it is sent: found in every spelling, and nothing else is touched."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.gateway.test_failures import CHILD
from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.upstream import Call
from zorivest_rpc.gateway.withheld import NOTHING_WITHHELD, Withheld, collect_credentials
from zorivest_rpc.mcp.client.forms import Form
from zorivest_rpc.mcp.client.lists import Drop, Item, Listing

SECRET = 'a/b"c\\d-ü'


def hide(value: Any, *secrets: str, spelled: bytes | None = None) -> Any:
    raw = Raw(spelled if spelled is not None else json.dumps(value).encode())
    return msgspec.json.decode(Withheld(secrets).hide_in_result(raw))


@pytest.mark.parametrize("is_ascii", [True, False])
@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_a_value_is_found_as_every_encoder_writes_it(is_ascii: bool, slash: str) -> None:
    spelled = json.dumps({"a": f"<{SECRET}>"}, ensure_ascii=is_ascii).replace("/", slash).encode()
    assert hide(None, SECRET, spelled=spelled) == {"a": "<[redacted]>"}


def test_a_value_is_found_where_every_character_is_escaped() -> None:
    spelled = '{"a":"' + "".join(f"\\u{ord(char):04X}" for char in SECRET) + '"}'
    assert hide(None, SECRET, spelled=spelled.encode()) == {"a": "[redacted]"}


def test_values_and_keys_at_any_depth_are_hidden_and_all_else_stays() -> None:
    value = {"a": [{"k-secret": 1, "b": ["x", "a secret b secret", None, True, 1.5]}], "n": 7}
    hidden = {"a": [{"k-[redacted]": 1, "b": ["x", "a [redacted] b [redacted]", None, True, 1.5]}], "n": 7}
    assert hide(value, "secret") == hidden


def test_of_two_that_begin_alike_the_longer_one_is_hidden_whole() -> None:
    assert hide("token-one-two token-one", "token-one", "token-one-two") == "[redacted] [redacted]"


@pytest.mark.parametrize("secrets", [(), ("elsewhere",), ("abc",)])
@pytest.mark.parametrize(
    "spelled", [b'{"a": "abc" }', b'{"a":"\\u0061bc"}', b'{"a":"\\ud800', b'{"a":"\xff"}', b"{\\u00"]
)
def test_what_holds_none_of_them_is_the_very_same(secrets: tuple[str, ...], spelled: bytes) -> None:
    raw = Raw(spelled)
    assert Withheld(secrets).hide_in_result(raw) is raw


@pytest.mark.parametrize(("depth", "is_changed"), [(300, True), (900, False)])
def test_a_result_that_is_too_deep_to_be_changed_is_none_at_all(depth: int, is_changed: bool) -> None:
    spelled = b'{"a":' * depth + b'"secret"' + b"}" * depth
    found = bytes(Withheld(["secret"]).hide_in_result(Raw(spelled)))
    assert found == (spelled.replace(b"secret", b"[redacted]") if is_changed else b"null")


def test_definitions_and_drops_are_told_without_them() -> None:
    definition = {"name": "t", "description": "say secret", "inputSchema": {"properties": {"secret": {}}}}
    plain = Item("plain", b"{}", {"name": "plain"})
    listing = Listing(
        (Item("t", b"{}", definition), plain, Item("x-secret", b"{}", {"name": "x-secret"})),
        (Drop("secret", "shape", "not secret"),),
        ttl_ms=5,
    )
    found = Withheld(["secret"]).hide_in_listing(listing)
    assert [item.name for item in found.items] == ["t", "plain"]
    assert found.items[0].definition["description"] == "say [redacted]"
    assert b"secret" not in found.items[0].raw
    assert found.items[1] is plain
    assert [(drop.name, drop.reason) for drop in found.drops] == [
        ("[redacted]", "shape"),
        ("x-[redacted]", "credential"),
    ]
    assert found.ttl_ms == 5
    assert NOTHING_WITHHELD.hide_in_listing(listing) is listing


def test_a_form_is_shown_without_them() -> None:
    form = Form("with secret?", {"properties": {"a": {"default": "secret", "enum": ["secret", "b"]}}})
    shown = {"properties": {"a": {"default": "[redacted]", "enum": ["[redacted]", "b"]}}}
    assert Withheld(["secret"]).hide_in_form(form) == Form("with [redacted]?", shown)
    assert NOTHING_WITHHELD.hide_in_form(form) is form


def test_a_server_is_known_to_have_what_its_entry_names() -> None:
    server = Server(
        name="a", auth_bearer_env="A", headers_env={"X": "B"}, env_pass=("MY_TOKEN", "ApiKey", "NODE_ENV", "EMPTY_KEY")
    )
    values = {"A": " aaaa\n", "B": "bbbb", "MY_TOKEN": "cccc", "ApiKey": "dddd", "NODE_ENV": "test", "EMPTY_KEY": " "}
    assert collect_credentials(server, values) == ["aaaa", "bbbb", "cccc", "dddd"]


async def test_a_child_that_shows_its_environment_shows_no_credential() -> None:
    environ = {"MY_TOKEN": "of-the-user-alone", "PLAIN_WORD": "of-no-interest"}
    names = ("MY_TOKEN", "PLAIN_WORD")
    server = Server(name="a", command=sys.executable, args=("-I", CHILD, "legacy"), env_pass=names, timeout_secs=60)
    child = make_upstream(server, environ)
    try:
        await child.connect()
        params = b'{"name":"echo","arguments":{"do":"environment"}}'
        result = await child.call(Call("tools/call", params, "echo", seconds=60.0))
    finally:
        await child.close()
    shown = json.loads(json.loads(bytes(result.raw))["content"][0]["text"])
    assert (shown["MY_TOKEN"], shown["PLAIN_WORD"]) == ("[redacted]", "of-no-interest")
