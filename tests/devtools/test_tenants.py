"""What one tenant observes is nothing to another: keys, buffers, counters, pages, notes and questions are apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.devtools.stage import Clock, Counters, PageLink, answer, encode, log, socket
from zorivest_rpc.devtools.tools import Tools
from zorivest_rpc.devtools.visit import Refused, Visit
from zorivest_rpc.devtools.watch import Watch, Watches
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Outcome, Scope
from zorivest_rpc.mcp.protocol.jsonrpc import Id
from zorivest_rpc.mcp.protocol.session import Session


class Wire:
    progress_token: Id | None = None
    cancelled = False
    meta: Any = None
    carries_questions = False

    def notify(self, method: str, params: bytes) -> None:
        return

    def hang_up(self) -> None:
        return


class Two:
    """Two tenants and the tools, as a server with both has them."""

    def __init__(self, place: Path) -> None:
        self.counters = {"anna": Counters(), "ben": Counters()}
        self.watches = Watches(self.counters.__getitem__, Clock(), first="anna")
        self.made = [self.watches.of(name) for name in ("anna", "ben")]
        self.tools = Tools(
            lambda call: self.watches.of(call.scope.name), lambda tenant: place / tenant, lambda tenant: None
        )

    async def call(self, tenant: str, name: str, **arguments: Any) -> Any:
        call = Call(name, arguments, Session(), Wire())
        call.scope = Scope(tenant)
        outcome: Outcome = await self.tools.handlers()[name](call)
        return outcome.structured

    def visit(self, watch: Watch, page: str) -> tuple[Visit, PageLink]:
        link = PageLink()
        visit = Visit(watch, link, lambda seconds, work: None)
        url = f"http://{watch.tenant}.localhost/"
        visit.receive(encode({"frame": "hello", "v": 1, "page": page, "tab": page, "url": url, "visible": True}))
        return visit, link


def test_each_tenant_has_a_key_of_its_own_and_it_opens_nothing_else(tmp_path: Path) -> None:
    two = Two(tmp_path)
    anna, ben = two.made
    assert anna.key != ben.key
    assert all(watch.key.startswith("zdk_") and len(watch.key) == 36 for watch in two.made)
    assert two.watches.by_key(anna.key) is anna
    assert two.watches.by_key(ben.key) is ben
    for key in ("", "zdk_", anna.key[:-1], anna.key + ben.key, "é"):
        assert two.watches.by_key(key) is None


def test_a_key_that_the_operator_chose_is_that_of_the_first_tenant_alone() -> None:
    watches = Watches(lambda tenant: Counters(), Clock(), first="anna", key="zdk_chosen")
    assert watches.of("anna").key == "zdk_chosen"
    assert watches.of("ben").key != "zdk_chosen"


def test_keys_made_of_the_one_that_the_operator_chose_are_the_same_after_each_start_and_differ() -> None:
    first, again, other = (
        Watches(lambda tenant: Counters(), Clock(), first=None, key=key) for key in ("zdk_a", "zdk_a", "zdk_b")
    )
    for watches in (first, again, other):
        watches.serve(("anna", "ben", "default"))
    assert first.keys() == again.keys()
    assert len({"zdk_a", *first.keys().values(), *other.keys().values()}) == 7
    assert all(key.startswith("zdk_") and len(key) == 36 for key in first.keys().values())
    assert first.by_key("zdk_a") is None


def test_a_tenant_that_is_gone_takes_its_pages_entries_and_key_along(tmp_path: Path) -> None:
    two = Two(tmp_path)
    anna, ben = two.made
    visit, link = two.visit(anna, "a" * 16)
    theirs, their_link = two.visit(ben, "b" * 16)
    visit.receive(encode({"frame": "events", "seq": 1, "items": [log("of anna", "error"), socket("open")]}))
    two.watches.serve(("ben", "carl"))
    assert set(two.counters["anna"].all().values()) == {0}
    assert (link.closed, their_link.closed) == (True, False)
    assert two.watches.by_key(anna.key) is None
    assert two.watches.by_key(ben.key) is ben
    with pytest.raises(Refused):
        visit.receive(encode({"frame": "events", "seq": 2, "items": [log("late")]}))
    theirs.receive(encode({"frame": "events", "seq": 1, "items": [log("of ben")]}))
    two.watches.serve(("anna", "ben", "carl"))
    back = two.watches.of("anna")
    assert back.key != anna.key
    assert set(back.buffers.counts().values()) == {0}


async def test_what_a_page_sends_reaches_its_tenant_alone(tmp_path: Path) -> None:
    two = Two(tmp_path)
    visit, _ = two.visit(two.made[0], "a" * 16)
    visit.receive(encode({"frame": "events", "seq": 1, "items": [log("of anna", "error")]}))
    assert two.counters["anna"].of("errors") == 1
    assert set(two.counters["ben"].all().values()) == {0}
    assert (await two.call("anna", "observe", what="errors"))["total"] == 1
    seen = await two.call("ben", "observe", what="errors")
    assert (seen["entries"], seen["page"]) == ([], None)
    for name, arguments in (
        ("analyze", {"target": "changes"}),
        ("analyze", {"target": "timeline"}),
        ("generate", {"format": "har"}),
        ("configure", {"action": "load"}),
    ):
        told = json.dumps(msgspec.to_builtins(await two.call("ben", name, **arguments)))
        assert "anna" not in told
        assert "a" * 16 not in told


async def test_a_page_of_another_tenant_can_be_neither_asked_nor_answer(tmp_path: Path) -> None:
    two = Two(tmp_path)
    _, link = two.visit(two.made[0], "a" * 16)
    theirs, their_link = two.visit(two.made[1], "a" * 16)  # the same id: an id is no right
    task = asyncio.create_task(two.call("anna", "query_dom", selector="p"))
    await asyncio.sleep(0)
    (query,) = link.queries()
    assert their_link.queries() == []
    answer(theirs, query, {"match_count": 99, "matches": []})
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ToolError, match="is not connected"):
        await two.call("ben", "query_dom", selector="p", page="b" * 16)


async def test_notes_rules_settings_and_clearing_are_apart(tmp_path: Path) -> None:
    two = Two(tmp_path)
    visit, _ = two.visit(two.made[0], "a" * 16)
    visit.receive(encode({"frame": "events", "seq": 1, "items": [log("tick")]}))
    await two.call("anna", "configure", action="store", store_action="save", key="k", data={"of": "anna"})
    await two.call("ben", "configure", action="dismiss", pattern="tick")
    await two.call("ben", "configure", action="capture", settings={"log_level": "error"})
    await two.call("ben", "configure", action="clear")
    with pytest.raises(ToolError, match='No value "k"'):
        await two.call("ben", "configure", action="store", store_action="load", key="k")
    assert (await two.call("anna", "observe", what="logs"))["total"] == 1
    assert two.made[0].settings.log_level == "debug"
