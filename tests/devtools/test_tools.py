"""The five tools: every parameter is read and declared, each mode answers in its shape, and pages are not believed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.browser.runner import check_openapi
from tests.devtools.stage import Desk, answer, click, log, perf, request, socket
from zorivest_rpc.devtools.analyze import AnalyzeArguments, Audits, analyze
from zorivest_rpc.devtools.configure import Configuration, ConfigureArguments
from zorivest_rpc.devtools.export import save
from zorivest_rpc.devtools.noise import BUILT_IN, check_pattern
from zorivest_rpc.devtools.observe import ObserveArguments, observe
from zorivest_rpc.devtools.store import LARGEST_VALUE, Store
from zorivest_rpc.devtools.tools import ARGUMENTS
from zorivest_rpc.errors import ToolError
from zorivest_rpc.serving.catalog.load import load

Json = Any
SPECS = {spec.name: spec for spec in load(opt_in=("devtools",)).tools if spec.toolset == "devtools"}


# --- parity


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_parameter_is_declared_and_every_declared_one_exists(name: str) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(ARGUMENTS[name])]
    assert fields == list(SPECS[name].input_schema["properties"])
    required = {field.name for field in msgspec.structs.fields(ARGUMENTS[name]) if field.required}
    assert required == set(SPECS[name].input_schema.get("required", ()))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_defaults_of_the_schema_are_those_of_the_handler(name: str) -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(ARGUMENTS[name])}
    for parameter, schema in SPECS[name].input_schema["properties"].items():
        if "default" in schema and (name, parameter) != ("configure", "namespace"):  # list takes it for "all"
            assert defaults[parameter] == schema["default"], parameter


def test_the_toolset_is_in_no_list_that_does_not_name_it() -> None:
    assert SPECS
    assert not {spec.name for spec in load().tools} & set(SPECS)
    assert list(SPECS) == ["observe", "analyze", "generate", "configure", "query_dom"]


# --- observe


async def see(desk: Desk, what: str, **arguments: Json) -> Json:
    result = await observe(desk.watch, msgspec.convert({"what": what, **arguments}, ObserveArguments))
    assert list(result) == ["what", "entries", "returned", "total", "dropped", "page", "hint"]
    assert result["returned"] == len(result["entries"])
    return result


async def test_entries_have_the_fields_of_their_kind_and_are_filtered() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(
        visit,
        log("broke", "error", source="http://x/app.js:1:2", stack="at f"),
        log("slow", "warn"),
        request("http://x/a", response_headers={"Via": "p"}, content_type="text/plain"),
        request("http://x/b", method="POST", status=500, request_body="a=1"),
        socket("open"),
        click(selectors={"role": {"role": "button", "name": "Go"}}, value=None),
        perf(lcp=2400.0, cls=0.1, inp=600.0, load=10.0),
    )
    (error,) = (await see(desk, "errors"))["entries"]
    assert set(error) == {"ts", "level", "message", "source", "stack", "count", "page"}
    assert error["ts"] == "2027-01-15T08:00:00.000Z"
    assert [entry["message"] for entry in (await see(desk, "logs", level="warn"))["entries"]] == ["broke", "slow"]
    (post,) = (await see(desk, "network", status_min=400))["entries"]
    assert (post["method"], post["request_body"]) == ("POST", "a=1")
    assert [each["url"] for each in (await see(desk, "network", method="get"))["entries"]] == ["http://x/a"]
    assert [each["url"] for each in (await see(desk, "network", url="/b"))["entries"]] == ["http://x/b"]
    assert [each["url"] for each in (await see(desk, "network", last_n=1, method="GET"))["entries"]] == []
    limited = await see(desk, "network", limit=1)
    assert (limited["returned"], limited["total"], limited["entries"][0]["url"]) == (1, 2, "http://x/b")
    (action,) = (await see(desk, "actions"))["entries"]
    assert action["selectors"] == {"role": {"role": "button", "name": "Go"}}
    (vitals,) = (await see(desk, "vitals"))["entries"]
    ratings = {name: vitals[name]["rating"] for name in ("lcp", "cls", "inp")}
    assert ratings == {"lcp": "good", "cls": "needs-improvement", "inp": "poor"}
    (status,) = (await see(desk, "websocket_status"))["entries"]
    assert [each["connection_id"] for each in status["connections"]] == ["c1"]
    assert (await see(desk, "logs", page="f" * 16))["entries"] == []


async def test_nothing_is_an_empty_list_with_a_hint() -> None:
    desk = Desk()
    for what in ("errors", "logs", "network", "websocket_events", "actions", "vitals"):
        result = await see(desk, what)
        assert (result["entries"], result["total"], result["page"]) == ([], 0, None)
        assert result["hint"].startswith("No page is connected.")


async def test_the_page_describes_itself_and_is_not_believed() -> None:
    desk = Desk()
    visit, link = desk.visit()
    task = asyncio.create_task(see(desk, "page"))
    await asyncio.sleep(0)
    lie = {"url": 7, "title": "T" * 999, "links": -5, "headings": [{"level": 99, "text": "H"}, "x"], "forms": {}}
    answer(visit, link.queries()[0], lie)
    (entry,) = (await task)["entries"]
    assert (entry["url"], len(entry["title"]), entry["links"], entry["forms"]) == ("", 200, 0, [])
    assert entry["headings"] == [{"level": 6, "text": "H"}]


# --- noise


async def configure(desk: Desk, action: str, **arguments: Json) -> Json:
    made = desk.__dict__.setdefault("configuration", Configuration(desk.watch, Store(Path("/nowhere"))))
    return await made.run(msgspec.convert({"action": action, **arguments}, ConfigureArguments))


async def test_what_is_noise_is_hidden_counted_and_still_there() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, log("tick 1"), log("tick 2", "error"), log("boom", "error"), request("http://x/favicon.ico"))
    added = (await configure(desk, "dismiss", pattern="^tick"))["added"]
    assert [entry["message"] for entry in (await see(desk, "logs"))["entries"]] == ["boom"]
    assert (await see(desk, "logs"))["hint"].startswith("2 entries are hidden by noise rules")
    assert desk.counters.of("errors") == 2
    assert (await see(desk, "network"))["entries"] == []  # built in
    await configure(desk, "noise_rule", noise_action="remove", rule_id=added[0]["id"])
    assert len((await see(desk, "logs"))["entries"]) == 3


async def test_all_fields_of_a_rule_have_to_match() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, *(request("http://x/a", method=method, status=status) for method in "AB" for status in (200, 500)))
    rule = {"category": "network", "pattern": "/a", "method": "a", "status_min": 400}
    await configure(desk, "noise_rule", noise_action="add", rules=[rule])
    assert len((await see(desk, "network"))["entries"]) == 3


async def test_rules_are_proposed_and_none_is_added() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, *[log("tick (1)")] * 5, *[log("once")], *[log("bad", "error")] * 9)
    before = desk.watch.noise.all()
    found = await configure(desk, "noise_rule", noise_action="auto_detect")
    assert [proposal["count"] for proposal in found["proposals"]] == [5]
    assert desk.watch.noise.all() == before == list(BUILT_IN)
    check_pattern(found["proposals"][0]["rule"]["pattern"])


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(a+)+",
            "(a*)*b",
            "(a|aa)+",
            "(a?){30}b",
            "a*a*a*b",
            "a?" * 60,
            r"(a)\1",
            "(?=a)",
            "(?<=a)b",
            "(?i:a)b{2,}c*",
        ),
        *("[", "[[a]", "x" * 257, "(a{1,99}){1,99}", "(.*){2}"),
    ],
)
async def test_a_pattern_that_can_take_long_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError, match="is not taken"):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["tick", "^a.*b$", "a|b", r"\[HMR\] .*", ".*middle.*", "[0-9]{1,4} ms", "(x|y) z?"])
def test_a_plain_pattern_is_taken(pattern: str) -> None:
    check_pattern(pattern)


async def test_there_are_at_most_a_hundred_rules_and_none_that_hides_all() -> None:
    desk = Desk()
    rules = [{"category": "console", "pattern": f"p{number}"} for number in range(100)]
    await configure(desk, "noise_rule", noise_action="add", rules=rules)
    await configure(desk, "noise_rule", noise_action="add", rules=rules)  # they are there
    with pytest.raises(ToolError, match="at most 100"):
        await configure(desk, "dismiss", pattern="more")
    with pytest.raises(ToolError, match="hide everything"):
        await configure(desk, "noise_rule", noise_action="add", rules=[{"category": "network"}])


# --- configure


async def test_capture_reaches_pages_at_once_and_at_most_once_a_second() -> None:
    desk = Desk()
    _, link = desk.visit()
    told = await configure(desk, "capture", settings={"ws_mode": "messages"})
    assert told["settings"] == {"log_level": "debug", "ws_mode": "messages", "network_bodies": True, "actions": True}
    assert link.frames[-1].ws_mode == "messages"  # type: ignore[union-attr]
    with pytest.raises(ToolError, match="at most once a second"):
        await configure(desk, "capture", settings={"ws_mode": "off"})
    desk.clock.now += 1
    await configure(desk, "capture", page="a" * 16)
    assert desk.watch.pages.chosen == "a" * 16


async def test_clear_tells_what_it_removed_and_load_what_is_left() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, log(), request(), socket(), click(), perf())
    assert (await configure(desk, "clear", buffer="logs"))["removed"] == {"logs": 1}
    assert (await configure(desk, "load"))["counts"]["network"] == 1
    await configure(desk, "clear")
    assert desk.counters.all() == dict.fromkeys(desk.counters.all(), 0) | {"ws_open": 1}


def test_notes_are_kept_within_their_limits_and_their_directory(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store.save("n", "k", {"a": [1, "é"]})
    assert store.load("n", "k")["data"] == {"a": [1, "é"]}
    assert (tmp_path / "store" / "n" / "k.json").stat().st_mode & 0o777 == 0o600
    for name in ("..", ".", "a/b", "/etc/x", "", "x" * 65, "a\n", "ü"):
        for place in ((name, "k"), ("n", name)):
            with pytest.raises(ToolError, match="is not taken"):
                store.save(*place, {})
    with pytest.raises(ToolError, match="at most 1048576"):
        store.save("n", "big", {"x": "y" * LARGEST_VALUE})
    for number in range(10):
        store.save("big", str(number), {"x": "y" * (LARGEST_VALUE - 100)})
    with pytest.raises(ToolError, match="All values together"):
        store.save("big", "more", {"x": "y" * 10_000})
    store.save("big", "0", {})  # a replaced value counts once
    store.delete("big", None)
    assert store.list_keys(None) == {"namespaces": {"n": ["k"]}}
    with pytest.raises(ToolError, match=r'^No value "x" in "n"\. Keys: k\.$'):
        store.load("n", "x")
    (tmp_path / "store" / "n" / "k.json").write_text("{")
    with pytest.raises(ToolError, match="damaged"):
        store.load("n", "k")


# --- files of generate


@pytest.mark.parametrize(
    "name",
    [
        *("/etc/x", "../x", "a/../../x", "a/..", "..", ".", "a//b", "", "a\x00b", "C:\\x", "~/x", "é", "a" * 101),
        *("CON", "con.txt", "a/NUL", "nul .txt", "lpt1.har", "Com9.", "a.", "a ", " a", "a./b", "a:b"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="is refused"):
        save(str(tmp_path / "out"), name, b"x")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == []


def test_links_lead_nowhere_and_files_are_private(tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    (outside / "file").write_text("kept")
    (out / "dir").symlink_to(outside)
    (out / "file").symlink_to(outside / "file")
    for name in ("dir/x", "file"):
        with pytest.raises(ToolError, match="a link stands there"):
            save(str(out), name, b"x")
    assert os.listdir(outside) == ["file"]
    assert (outside / "file").read_text() == "kept"
    for name in ("console.har", "nullable", "com10.har", ".hidden", "a b (1).har"):
        assert save(str(out), name, b"x") == str(out / name)
    path = save(str(out), "sub/test.spec.ts", b"x")
    assert path == str(out / "sub" / "test.spec.ts")
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(ToolError, match="the operator set no directory"):
        save(None, "x", b"x")


# --- analyze


async def study(desk: Desk, target: str, **arguments: Json) -> Json:
    audits = desk.__dict__.setdefault("audits", Audits(desk.watch.live, desk.clock))
    given = msgspec.convert({"target": target, **arguments}, AnalyzeArguments)
    return await analyze(desk.watch, audits, given, lambda done, total, message: None)


async def load_page(desk: Desk, number: int, **metrics: Json) -> None:
    visit, _ = desk.visit(f"{number:016x}", f"{number:016x}")
    desk.send(visit, perf(**metrics))
    visit.end()


async def test_a_regression_is_more_than_a_share_and_more_than_an_amount() -> None:
    base = {"load": 1000.0, "fcp": 100.0, "lcp": 1000.0, "cls": 0.0, "requests": 10, "bytes": 1000, "long_tasks": 0}
    desk = Desk()
    await load_page(desk, 1, **base)
    assert (await study(desk, "performance"))["verdict"] == "no_baseline"
    await load_page(desk, 2, **base)
    unchanged = await study(desk, "performance")
    assert (unchanged["verdict"], unchanged["regressions"]) == ("unchanged", [])
    worse = {
        "load": 1501.0,
        "fcp": 299.0,
        "lcp": 1500.0,
        "cls": 0.051,
        "requests": 16,
        "bytes": 100_000,
        "long_tasks": 1,
    }
    await load_page(desk, 3, **worse, blocking_ms=101.0)
    found = await study(desk, "performance")
    assert found["verdict"] == "regressed"
    assert [each["metric"] for each in found["regressions"]] == ["load", "requests", "long_tasks", "blocking_ms", "cls"]
    assert (await study(desk, "performance", url="http://localhost/other"))["verdict"] == "no_data"


async def test_changes_are_those_since_the_mark() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, log("old", "error"), request("http://x/a", duration_ms=10), request("http://x/b"))
    assert (await study(desk, "changes"))["changes"]["logs"]["errors"] == 1
    assert (await study(desk, "changes", mark="before"))["summary"] == "no changes"
    desk.clock.now += 5
    desk.send(visit, log("new", "error"), log("new", "error"), request("http://x/a", duration_ms=31))
    desk.send(visit, request("http://x/b", status=500), request("http://x/c"))
    found = await study(desk, "changes")
    assert found["severity"] == "error"
    assert [(each["message"], each["count"]) for each in found["changes"]["logs"]["entries"]] == [("new", 2)]
    network = found["changes"]["network"]
    assert [each["url"] for each in network["new_endpoints"]] == ["http://x/c"]
    assert [(each["url"], each["status"]) for each in network["new_failures"]] == [("http://x/b", 500)]
    assert [(each["url"], each["now_ms"]) for each in network["slower"]] == [("http://x/a", 31)]
    assert (await study(desk, "changes", checkpoint="before"))["changes"]["logs"]["new"] == 2
    assert (await study(desk, "changes", checkpoint="2027-01-15T08:00:02Z"))["changes"]["logs"]["new"] == 2
    assert (await study(desk, "changes"))["summary"] == "no changes"  # it moved
    with pytest.raises(ToolError, match=r'^Unknown checkpoint "x"\. Marks: before\.'):
        await study(desk, "changes", checkpoint="x")


async def test_twenty_marks_are_kept_and_the_least_recently_used_goes() -> None:
    desk = Desk()
    for number in range(20):
        await study(desk, "changes", mark=f"m{number}")
    await study(desk, "changes", checkpoint="m0")
    found = await study(desk, "changes", mark="m20")
    assert (len(found["marks"]), "m0" in found["marks"], "m1" in found["marks"]) == (20, True, False)


async def test_a_timeline_is_in_order_and_the_newest_two_hundred() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, request(ts=3.0), click(ts=2.0), log("w", "warn", ts=1.0), log("i", "info", ts=0.5))
    found = await study(desk, "timeline")
    assert [entry["kind"] for entry in found["entries"]] == ["console", "action", "network"]
    desk.send(visit, *(click(ts=10.0 + number) for number in range(300)))
    assert (found := await study(desk, "timeline"))["returned"] == 200
    assert found["entries"][-1]["ts"] == "1970-01-01T00:00:00.309Z"
    assert (await study(desk, "timeline", last_n_actions=3))["returned"] == 3


async def test_a_stub_of_the_interface_is_one(tmp_path: Path) -> None:
    desk = Desk()
    visit, _ = desk.visit()
    body = '{"id":1,"tags":["a"],"deep":{"a":{"b":{"c":{"d":1}}}},"no":null,"y":1.5}'
    desk.send(
        visit,
        request("http://x/t/17/legs/18?page=1", response_body=body),
        request("http://x/t/17/legs/18", status=404, response_body='{"error":"x"}'),
        request("http://x/t", method="POST", status=0, request_body=body),
        request("http://x/odd/{brace}/: #\"'", method="PUT", request_body="[]"),
        request("http://x/t", method="SPY"),
    )
    found = await study(desk, "api", format="openapi_stub")
    await check_openapi(found["openapi"], tmp_path)
    _, _, operation = found["openapi"].partition('"/t/{id}/legs/{id2}":')
    assert ('"200":' in operation, '"404":' in operation, 'name: "id2"' in operation) == (True, True, True)
    native = await study(desk, "api", url_filter="legs")
    (endpoint,) = native["endpoints"]
    assert (endpoint["observations"], endpoint["statuses"]) == (2, {"200": 1, "404": 1})
    assert (await study(desk, "api", min_observations=2, url_filter="odd"))["endpoints"] == []


AUDIT = {
    "engine": "axe-core",
    "engine_version": "4",
    "violations": [{"id": "label", "impact": "critical", "nodes": [{}]}],
}


async def test_equal_audits_run_once_are_kept_half_a_minute_and_forgotten_when_the_page_goes_on() -> None:
    desk = Desk()
    visit, link = desk.visit()
    both = [asyncio.create_task(study(desk, "accessibility", tags=tags)) for tags in (["a", "b"], ["b", "a"])]
    await asyncio.sleep(0.01)
    (query,) = link.queries()
    answer(visit, query, AUDIT)
    first, second = await asyncio.gather(*both)
    assert first == second
    assert first["summary"]["critical"] == 1
    assert await study(desk, "accessibility", tags=["a", "b"]) == first
    for change in ("time", "refresh", "navigation"):
        if change == "time":
            desk.clock.now += 31
        elif change == "navigation":
            desk.audits.forget(desk.page())  # type: ignore[attr-defined]
        before = len(link.queries())
        task = asyncio.create_task(study(desk, "accessibility", tags=["a", "b"], force_refresh=change == "refresh"))
        await asyncio.sleep(0.01)
        assert len(link.queries()) == before + 1, change
        answer(visit, link.queries()[-1], AUDIT)
        await task


async def test_an_audit_that_failed_is_not_kept() -> None:
    desk = Desk()
    visit, link = desk.visit()
    for number in (1, 2):
        task = asyncio.create_task(study(desk, "accessibility", scope="#x["))
        await asyncio.sleep(0.01)
        assert len(link.queries()) == number
        answer(visit, link.queries()[-1], code="invalid_selector")
        with pytest.raises(ToolError, match=r"Invalid CSS selector: #x\[\."):
            await task
