"""Every cell of the confirmation table, against an oracle written from sentences and not from cells."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.policy import (
    EXEMPT,
    Decision,
    Subject,
    classify,
    decide,
)
from zorivest_rpc.serving.catalog.approval import block, choose_way, confirmation_required, declined, not_approved

NAME = "ops__act"
MODES = ("never", "mcp-only", "always")
PROVENANCES = ("built-in", "upstream")
CLASSES = ("R", "W", "D")
LISTS = (
    (), ("require",), ("approve",), ("approve*",), ("require", "approve"), ("require", "approve*"), ("deny",),
    ("deny", "approve"),
)  # fmt: skip
CLIENTS = ("plain", "asks by itself")
CONFIRM = ("auto", "always", "never")
CELLS = list(product(MODES, PROVENANCES, CLASSES, LISTS, CLIENTS, CONFIRM))


def profile(mode: str, lists: tuple[str, ...], **more: Any) -> Profile:
    entries = {"require": NAME, "approve": NAME, "approve*": "ops__*", "deny": "ops*"}
    return Profile(
        tool_confirmation_mode=mode,
        require_confirm_tool=tuple(entries[each] for each in lists if each == "require"),
        approve_tool=tuple(entries[each] for each in lists if each.startswith("approve")),
        deny_tool=tuple(entries[each] for each in lists if each == "deny"),
        **more,
    )


def oracle(
    mode: str, provenance: str, kind: str, lists: tuple[str, ...], client: str, confirm: str
) -> tuple[str, bool]:
    """(verdict, auto), told as a person would tell it:

    What is denied is denied. What must be asked about is: everything in mode always; another server's tool in mode
    mcp-only; whatever is listed; whatever destroys. An approval spares the question, and is noted where there would
    have been one; what destroys is approved by its own name alone. Only for our own destructive tools, in the two
    lower modes and where no list names them, do --confirm and a client that asks by itself have a say."""
    if "deny" in lists:
        return "deny", False
    approved = "approve" in lists or ("approve*" in lists and kind != "D")
    must_ask = (
        mode == "always" or (mode == "mcp-only" and provenance == "upstream") or "require" in lists or kind == "D"
    )
    if approved:
        return "allow", must_ask
    if not must_ask:
        return "allow", False
    if provenance == "built-in" and kind == "D" and mode != "always" and "require" not in lists:
        if confirm == "never":
            return "allow", False
        if confirm == "auto" and client == "asks by itself":
            return "allow", False
    return "confirm", False


def test_there_are_enough_cells() -> None:
    assert len(CELLS) >= 96


@pytest.mark.parametrize(("mode", "provenance", "kind", "lists", "client", "confirm"), CELLS)
def test_a_cell(mode: str, provenance: Any, kind: Any, lists: tuple[str, ...], client: str, confirm: str) -> None:
    subject = Subject(NAME, provenance, kind)
    found = decide(profile(mode, lists), subject, confirm=confirm, client_asks=client != "plain")
    assert (found.verdict, found.auto) == oracle(mode, provenance, kind, lists, client, confirm)
    assert (found.reason is not None) == (found.verdict == "confirm")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channel", ["elicitation", "token", "console", "none"])
def test_a_channel_of_the_operators_choice_is_not_left_to_the_client(mode: str, channel: str) -> None:
    found = decide(profile(mode, (), confirmation_channel=channel), Subject(NAME, "built-in", "D"), client_asks=True)
    assert found == Decision("confirm", "destructive")


@pytest.mark.parametrize(("mode", "verdict"), [("never", "allow"), ("mcp-only", "confirm"), ("always", "confirm")])
def test_confirm_destructive_switches_one_cell_off(mode: str, verdict: str) -> None:
    loose = {"confirm_destructive": False}
    assert decide(profile(mode, (), **loose), Subject(NAME, "upstream", "D")).verdict == verdict
    assert decide(profile(mode, ("require",), **loose), Subject(NAME, "upstream", "D")).verdict == "confirm"
    assert decide(profile(mode, (), **loose), Subject(NAME, "built-in", "D")).verdict == "confirm"


@pytest.mark.parametrize("provenance", PROVENANCES)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_changed_definition_suspends_an_approval(provenance: Any, kind: Any) -> None:
    subject = Subject(NAME, provenance, kind)
    approved, without = profile("always", ("approve",)), profile("always", ())
    assert decide(approved, subject).verdict == "allow"
    assert decide(approved, subject._replace(changed=True)) == decide(without, subject)


@pytest.mark.parametrize("name", sorted(EXEMPT))
@pytest.mark.parametrize("mode", MODES)
def test_what_finds_and_confirms_is_never_confirmed_itself(name: str, mode: str) -> None:
    lists = Profile(tool_confirmation_mode=mode, require_confirm_tool=(name,))
    assert decide(lists, Subject(name, "built-in", "W")) == Decision("allow")
    assert decide(Profile(deny_tool=(name,)), Subject(name, "built-in", "W")).verdict == "deny"
    assert decide(lists, Subject(name, "upstream", "W")).verdict == "confirm"


def test_exempt_are_the_eight_of_the_contract() -> None:
    assert len(EXEMPT) == 8
    assert not {"create_trade", "zorivest_emergency_unlock"} & EXEMPT


@pytest.mark.parametrize(
    ("mode", "lists", "provenance", "kind", "reason"),
    [
        ("mcp-only", (), "upstream", "W", "upstream tool"),
        ("mcp-only", (), "upstream", "R", "upstream tool"),
        ("always", (), "upstream", "W", "mode always"),
        ("always", (), "built-in", "R", "mode always"),
        ("mcp-only", (), "upstream", "D", "destructive"),
        ("mcp-only", (), "built-in", "D", "destructive"),
        ("always", (), "built-in", "D", "destructive"),
        ("never", ("require",), "built-in", "R", "listed in require_confirm_tool"),
        ("always", ("require",), "upstream", "D", "listed in require_confirm_tool"),
    ],
)
def test_the_reason_that_is_told(mode: str, lists: tuple[str, ...], provenance: Any, kind: Any, reason: str) -> None:
    assert decide(profile(mode, lists), Subject(NAME, provenance, kind)).reason == reason


@pytest.mark.parametrize(
    ("provenance", "hints", "trusted", "gated", "kind"),
    [
        ("built-in", {"readOnlyHint": True}, False, False, "R"),
        ("built-in", {"readOnlyHint": False}, False, False, "W"),
        ("built-in", {"destructiveHint": True}, False, False, "D"),
        ("built-in", {"destructiveHint": False}, False, True, "D"),
        ("built-in", None, False, False, "W"),
        ("upstream", {"readOnlyHint": True}, False, False, "W"),
        ("upstream", {"readOnlyHint": True}, True, False, "R"),
        ("upstream", {"destructiveHint": True}, False, False, "D"),
        ("upstream", {"destructiveHint": True}, True, False, "D"),
        ("upstream", {"readOnlyHint": True, "destructiveHint": True}, True, False, "D"),
        ("upstream", {"destructiveHint": "true"}, False, False, "W"),
        ("upstream", {"readOnlyHint": 1}, True, False, "W"),
        ("upstream", {}, True, False, "W"),
        ("upstream", None, True, True, "W"),
    ],
)
def test_the_class_of_a_tool(provenance: Any, hints: Any, trusted: bool, gated: bool, kind: str) -> None:
    assert classify(provenance, hints, trusted=trusted, gated=gated) == kind


@pytest.mark.parametrize(("setting", "has_token", "can_ask", "channel"), [
    ("auto", True, True, "token"), ("auto", True, False, "token"),
    ("auto", False, True, "elicitation"), ("auto", False, False, "explain"),
    ("elicitation", True, True, "elicitation"), ("elicitation", True, False, "refuse"),
    ("elicitation", False, True, "elicitation"), ("elicitation", False, False, "refuse"),
    ("token", True, True, "token"), ("token", True, False, "token"),
    ("token", False, True, "explain"), ("token", False, False, "explain"),
    ("none", True, True, "refuse"), ("none", True, False, "refuse"),
    ("none", False, True, "refuse"), ("none", False, False, "refuse"),
    ("console", True, True, "refuse"), ("console", True, False, "refuse"),
    ("console", False, True, "refuse"), ("console", False, False, "refuse"),
])  # fmt: skip
def test_the_channel_of_a_confirmation(setting: str, has_token: bool, can_ask: bool, channel: str) -> None:
    assert choose_way(setting, has_token=has_token, can_ask=can_ask) == channel


def test_the_console_is_a_channel_where_there_is_one() -> None:
    assert choose_way("console", has_token=True, can_ask=True, has_console=True) == "console"
    assert choose_way("none", has_token=True, can_ask=True, has_console=True) == "refuse"


def test_the_texts_are_the_contracts() -> None:
    assert confirmation_required("t", "upstream tool").text == (
        'Confirmation required for "t" (upstream tool). Call get_confirmation_token with action "t", '
        "then repeat this call with confirmation_token."
    )
    assert not_approved("t").text == '"t" needs approval and none was given. An operator can add it to approve_tool.'
    assert block("t").text == '"t" is blocked by deny_tool.'
    assert declined("t").text == 'The user declined "t".'
    codes = [each.code for each in (confirmation_required("t", ""), not_approved("t"), block("t"), declined("t"))]
    assert codes == ["confirmation_missing", "not_approved", "denied", "confirmation_declined"]


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a", "a", True), ("a", "A", False), ("a*", "abc", True), ("*", "", True), ("*c", "abc", True),
        ("a*c", "abd", False), ("a?", "ab", False), ("[ab]", "a", False), ("a.c", "abc", False),
        ("**a**", "xax", True), ("a*", "ba", False),
    ],
)  # fmt: skip
def test_a_star_is_the_only_wildcard(pattern: str, name: str, fits: bool) -> None:
    assert (decide(Profile(deny_tool=(pattern,)), Subject(name, "upstream", "R")).verdict == "deny") is fits
