"""Published names: one table of rules, and the same names whoever answers first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.naming import (
    Dropped,
    Named,
    annotations_for,
    assign_names,
    describe,
    published_name,
    published_uri,
)


def servers(*given: Server, **more: Any) -> Profile:
    return Profile(mcp_servers=given, **more)


@pytest.mark.parametrize(
    ("server", "upstream", "published"),
    [
        (Server(name="ops-tools"), "get_runbook", "ops-tools__get_runbook"),
        (Server(name="ops"), "fs.read:file", "ops__fs_read_file"),
        (Server(name="ops"), "lösche alles/x", "ops__l_sche_alles_x"),
        (Server(name="ops"), "A-b_9", "ops__A-b_9"),
        (Server(name="ops", prefix=False), "fs.read", "fs_read"),
        (Server(name="ops", tool_aliases={"fs.read": "read_it"}), "fs.read", "read_it"),
        (Server(name="ops", tool_aliases={"fs.read": "read_it"}, prefix=False), "fs.read", "read_it"),
        (Server(name="ops", tool_aliases={"fs.read": "read_it"}), "fs_read", "ops__fs_read"),
    ],
)
def test_a_name_comes_from_the_configuration_and_the_name_at_the_server(
    server: Server, upstream: str, published: str
) -> None:
    assert published_name(server, upstream) == published


def test_an_alias_of_a_tool_is_none_of_a_prompt() -> None:
    server = Server(name="ops", tool_aliases={"plan": "my_plan"})
    assert published_name(server, "plan", kind="prompt") == "ops__plan"


@pytest.mark.parametrize(("length", "fits"), [(64, True), (65, False)])
def test_a_name_of_more_than_64_characters_is_dropped_whole(length: int, fits: bool) -> None:
    upstream = "t" * (length - len("ops__"))
    found = assign_names(servers(Server(name="ops")), {"ops": [upstream]}, ())
    if fits:
        assert [each.published for each in found.named] == [f"ops__{upstream}"]
    else:
        assert found.dropped == (Dropped("ops", upstream, f"ops__{upstream}", "name_too_long"),)


@pytest.mark.parametrize(("length", "warned"), [(40, False), (41, True)])
def test_a_name_of_more_than_40_characters_gets_a_warning(length: int, warned: bool) -> None:
    upstream = "t" * (length - len("ops__"))
    (named,) = assign_names(servers(Server(name="ops")), {"ops": [upstream]}, ()).named
    assert (named.warning is not None) is warned


def test_a_built_in_name_wins() -> None:
    bare = Server(name="ops", prefix=False)
    found = assign_names(servers(bare), {"ops": ["create_trade", "other"]}, {"create_trade"})
    assert found.named == (Named("ops", "other", "other"),)
    assert found.dropped == (Dropped("ops", "create_trade", "create_trade", "name_taken", "built-in"),)


def test_the_server_earlier_in_the_file_keeps_a_name() -> None:
    profile = servers(Server(name="b", prefix=False), Server(name="a", prefix=False))
    found = assign_names(profile, {"a": ["search", "x"], "b": ["search"]}, ())
    assert found.named == (Named("b", "search", "search"), Named("a", "x", "x"))
    assert found.dropped == (Dropped("a", "search", "search", "name_taken", "b/search"),)


def test_two_tools_of_one_server_with_one_name_both_lose_it() -> None:
    found = assign_names(servers(Server(name="ops")), {"ops": ["a.b", "a:b", "c"]}, ())
    assert found.named == (Named("ops", "c", "ops__c"),)
    assert found.dropped == (
        Dropped("ops", "a.b", "ops__a_b", "name_taken", "ops/a:b"),
        Dropped("ops", "a:b", "ops__a_b", "name_taken", "ops/a.b"),
    )


def test_a_tool_that_is_listed_twice_is_one_tool() -> None:
    assert len(assign_names(servers(Server(name="ops")), {"ops": ["a", "a"]}, ()).named) == 1


def test_no_number_is_appended_and_no_name_is_cut() -> None:
    profile = servers(Server(name="a", prefix=False), Server(name="b", prefix=False), Server(name="c", prefix=False))
    found = assign_names(profile, {name: ["same"] for name in "abc"}, ())
    assert [each.published for each in found.named] == ["same"]
    assert [each.published for each in found.dropped] == ["same", "same"]


def test_servers_stand_in_file_order_and_tools_by_published_name() -> None:
    profile = servers(Server(name="z", tool_aliases={"b": "zz"}), Server(name="a"))
    found = assign_names(profile, {"a": ["y", "x"], "z": ["c", "b", "a"]}, ())
    assert [each.published for each in found.named] == ["z__a", "z__c", "zz", "a__x", "a__y"]


def test_a_server_that_is_not_configured_names_nothing() -> None:
    assert assign_names(servers(Server(name="a")), {"b": ["x"]}, ()).named == ()


NAMES = st.lists(st.sampled_from(["a", "a.b", "a:b", "a_b", "create_trade", "x" * 63, "x" * 70]), max_size=5)
SERVERS = st.lists(st.tuples(st.booleans(), st.sampled_from([None, "a_b", "s0__a"]), NAMES), min_size=1, max_size=5)


@given(SERVERS, st.randoms(use_true_random=False))
def test_names_are_the_same_for_every_order_of_connecting(
    described: list[tuple[bool, str | None, list[str]]], random: Any
) -> None:
    """Each server registers on its own; after the last one the names are those of the whole set, in every order."""
    profile = servers(
        *(
            Server(name=f"s{place}", prefix=prefix, tool_aliases={"a": alias} if alias else {})
            for place, (prefix, alias, _) in enumerate(described)
        )
    )
    offered = {f"s{place}": names for place, (_, _, names) in enumerate(described)}
    whole = assign_names(profile, offered, {"create_trade"})
    order = list(offered)
    random.shuffle(order)
    connected: dict[str, list[str]] = {}
    seen = assign_names(profile, connected, {"create_trade"})
    for name in order:
        shuffled = list(offered[name])
        random.shuffle(shuffled)
        connected[name] = shuffled
        seen = assign_names(profile, connected, {"create_trade"})
        published = [each.published for each in seen.named]
        assert len(set(published)) == len(published)
        assert "create_trade" not in published
    assert seen == whole
    told = {(each.server, each.upstream) for each in seen.named}
    told |= {(each.server, each.upstream) for each in seen.dropped}
    assert told == {(server, name) for server, names in offered.items() for name in names}


@pytest.mark.parametrize(
    ("prefix", "uri", "taken", "published"),
    [
        (True, "file:///a", (), "upstream:ops:file:///a"),
        (False, "file:///a", (), "file:///a"),
        (False, "file:///a", ("file:///a",), "upstream:ops:file:///a"),
        (False, "zorivest://guard", (), "upstream:ops:zorivest://guard"),
        (False, "PIPELINE://x", (), "upstream:ops:PIPELINE://x"),
        (False, "ui://x", (), "upstream:ops:ui://x"),
        (False, "upstream:other:x", (), "upstream:ops:upstream:other:x"),
    ],
)
def test_the_uri_of_a_resource(prefix: bool, uri: str, taken: tuple[str, ...], published: str) -> None:
    assert published_uri(Server(name="ops", prefix=prefix), uri, taken) == published


def test_a_description_names_its_server_and_ends_at_1024_characters() -> None:
    server = Server(name="ops")
    assert describe(server, "Finds.") == "[ops] Finds."
    assert describe(server, "x" * 1018) == "[ops] " + "x" * 1018
    assert describe(server, "x" * 1019) == "[ops] " + "x" * 1018 + "…"


def test_annotations_are_published_as_received_only_where_they_are_trusted() -> None:
    received = {"readOnlyHint": True, "title": "Find"}
    assert annotations_for(Server(name="a", trust_annotations=True), received) == received
    unbelieved = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
    assert annotations_for(Server(name="a"), received) == unbelieved
    assert annotations_for(Server(name="a", trust_annotations=True), None) == unbelieved
