"""Prompts and resources of other servers for several clients: followed, told of, limited, and asked about."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.gateway.fake import Noted, Seen, serving
from tests.tenants.books import NOTE, PROMPT, TOOL, Book
from tests.tenants.wall.stage import LEGACY, MODERN, Desk, Served, access_rule, served

IDS = ["acme", "beta", "gamma"]
GRANTS = {"acme": ["acme"], "beta": ["beta"], "gamma": ["gamma"], "two": ["acme", "beta"], "all": IDS}
RULES = [access_rule(f"key-{name}", ids, name) for name, ids in GRANTS.items()]
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
COMMON, SOME, OWN = (f"upstream:{server}:{NOTE}" for server in ("common", "some", "own"))
PROFILE = """
[profiles.default]
tool_confirmation_mode = "never"
confirm_destructive = false
{more}
[[profiles.default.mcp_servers]]
name = "common"
endpoint = "{common}"
shared = true
[[profiles.default.mcp_servers]]
name = "some"
endpoint = "{some}"
tenants = ["acme", "beta"]
[[profiles.default.mcp_servers]]
name = "own"
endpoint = "{own}"
tenants = ["acme", "beta"]
auth_bearer_env_by_tenant = {{ acme = "T_acme", beta = "T_beta" }}
"""


class Ear:
    """What one caller is told: a stream of its session, or a subscription of the modern era."""

    def __init__(self, desk: Desk, era: str) -> None:
        self.desk = desk
        self.era = era
        self.told = Noted()
        self.session = ""
        self.posted: asyncio.Future[str]
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, method: str, params: dict[str, Any], **headers: Any) -> Any:
        if self.era == "modern":
            return (await self.desk.modern(method, params, **headers))[1]
        own = {"Mcp_Session_Id": self.session, "MCP_Protocol_Version": LEGACY}
        return (await self.desk.post(method, params, **own, **headers))[1]

    async def open(self, lists: bool = True, *uris: str, **headers: str) -> list[str]:
        """Listen to all lists, and to these; the URIs that will be told of."""
        if self.era == "sse":
            return await self._open_pair()
        if self.era == "legacy":
            self.session = await self.desk.open()
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            async with self.desk.http.post(self.desk.url, json=note, headers=self._headers()) as answer:
                assert answer.status == 202
            await self._start("GET", None, {})
            for uri in uris:
                answered = await self.ask("resources/subscribe", {"uri": uri}, **headers)
                assert "result" in answered, answered
            return []
        wanted: dict[str, Any] = {"resourceSubscriptions": list(uris)}
        if lists:
            wanted |= dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
        }
        params = {"notifications": wanted, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params}
        await self._start("POST", message, {"Mcp-Method": "subscriptions/listen", **headers})
        await self.told.reach(1)
        return list(self.told.pop(0)["params"]["notifications"].get("resourceSubscriptions", []))

    async def _open_pair(self) -> list[str]:
        """The transport of the first revision: what is posted is answered on the stream."""
        self.posted = asyncio.get_running_loop().create_future()
        await self._start("GET", None, {}, self.desk.url.replace("/mcp", "/sse"))
        url = self.desk.url.replace("/mcp", "") + await self.posted
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "cline", "version": "1"}}
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        ):
            async with self.desk.http.post(url, json=message, headers=self._headers()) as answer:
                assert answer.status == 202, await answer.text()
        await self.told.reach(2)
        self.told.clear()
        return []

    def _headers(self) -> dict[str, str]:
        given = {"Authorization": f"Bearer {self.desk.key}", "Accept": "application/json, text/event-stream"}
        if self.era == "modern":
            return given | {"MCP-Protocol-Version": MODERN}
        return given | ({"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": self.session} if self.session else {})

    async def _start(self, verb: str, message: Any, headers: dict[str, str], url: str = "") -> None:
        opened = asyncio.Event()
        self.tasks.append(asyncio.create_task(self._listen(verb, message, headers, opened, url or self.desk.url)))
        async with asyncio.timeout(20):
            await opened.wait()

    async def _listen(self, verb: str, message: Any, headers: dict[str, str], opened: asyncio.Event, url: str) -> None:
        own = self._headers() | ({"Accept": "text/event-stream"} if verb == "GET" else {}) | headers
        async with self.desk.http.request(verb, url, json=message, headers=own) as answer:
            assert answer.status == 200, await answer.text()
            opened.set()
            async for line in answer.content:
                if line.startswith(b"data: /"):  # where to post
                    self.posted.set_result(line[5:].decode().strip())
                elif line.startswith(b"data:") and line[5:].strip():
                    self.told.append(json.loads(line[5:]))

    @property
    def updates(self) -> list[str]:
        return [each["params"]["uri"] for each in self.told if each["method"].endswith("/updated")]

    @property
    def lists(self) -> list[str]:
        return [each["method"].split("/")[1] for each in self.told if each.get("method", "").endswith("list_changed")]

    async def hears(self, true: Callable[[], bool]) -> None:
        while not true():
            await self.told.reach(len(self.told) + 1)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class House(NamedTuple):
    served: Served
    books: dict[str, Book]
    ears: list[Ear]
    config: Path

    def desk(self, key: str) -> Desk:
        return self.served.desk(f"key-{key}")

    async def ear(self, key: str, era: str, *uris: str, **headers: str) -> Ear:
        ear = Ear(self.desk(key), era)
        self.ears.append(ear)
        await ear.open(True, *uris, **headers)
        return ear

    async def ask(self, key: str, method: str, params: dict[str, Any], **headers: Any) -> Any:
        return (await self.desk(key).modern(method, params, **headers))[1]

    async def read(self, key: str, uri: str, **headers: Any) -> Any:
        return await self.ask(key, "resources/read", {"uri": uri}, **headers)

    async def get(self, key: str, name: str, /, headers: Any = None, **arguments: Any) -> Any:
        return await self.ask(key, "prompts/get", {"name": name, "arguments": arguments}, **(headers or {}))

    async def names(self, key: str, kind: str) -> list[str]:
        answer = await self.ask(key, f"{kind}/list", {})
        name = "uri" if kind == "resources" else "name"
        return [each[name] for each in answer["result"][kind] if "__" in each[name] or "upstream:" in each[name]]


@asynccontextmanager
async def house(
    patch: pytest.MonkeyPatch,
    path: Path,
    era: str = "modern",
    *,
    more: str = "",
    ids: list[str] = IDS,
    access: list[dict[str, Any]] = RULES,
    before: Callable[[dict[str, Book]], None] = lambda books: None,
    profile: str = PROFILE,
    **each: dict[str, Any],
) -> AsyncIterator[House]:
    for id in ids:
        patch.setenv(f"T_{id}", f"t-{id}")
    books = {name: Book(name, era) for name in ("common", "some", "own")}
    before(books)
    async with AsyncExitStack() as stack:
        urls = {name: await stack.enter_async_context(serving(book.handle)) for name, book in books.items()}
        config = path / "config.toml"
        config.write_text(profile.format(more=more, **urls))
        place = await stack.enter_async_context(
            served(patch, path, ids, "--config", str(config), access=access, **each)
        )
        gateway = place.journal.gateway()
        assert gateway is not None
        gateway.start()
        await gateway.settle(60)
        found = House(place, books, [], config)
        yield found
        for ear in found.ears:
            await ear.close()
        for book in books.values():
            book.end()


def followed(book: Book, bearer: str = "") -> list[Any]:
    """What is subscribed to at a server, in the words of its era, in order."""
    seen = [each for each in book.seen if book.whose(each) == bearer]
    if book.era == "legacy":
        return [(each.method, each.params["uri"]) for each in seen if "scribe" in each.method]
    return [
        tuple(each.params["notifications"].get("resourceSubscriptions", ()))
        for each in seen
        if each.method == "subscriptions/listen"
    ]


async def until(book: Book, true: Callable[[], bool]) -> None:
    while not true():
        await book.heard.reach(len(book.heard) + 1)


# --- subscriptions


@ERAS
async def test_a_change_at_one_clients_own_server_is_told_to_its_subscribers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    async with house(monkeypatch, tmp_path, era) as home:
        own, begun = home.books["own"], len(home.books["own"].opened)
        acme = await home.ear("acme", "legacy", f"{OWN}?clientId=acme")
        beta = await home.ear("beta", "modern", f"{OWN}?clientId=beta")
        both = await home.ear("two", "legacy", f"{OWN}?clientId=acme", f"{OWN}?clientId=beta")
        if era == "legacy":
            await until(
                own, lambda: followed(own, "t-acme") == followed(own, "t-beta") == [("resources/subscribe", NOTE)]
            )
        else:
            await own.opened.reach(begun + 2)
            assert followed(own, "t-acme")[-1] == followed(own, "t-beta")[-1] == (NOTE,)
        own.tell("t-acme", "resources/updated", uri=NOTE)
        await acme.hears(lambda: bool(acme.updates))
        await both.hears(lambda: bool(both.updates))
        own.tell("t-beta", "resources/updated", uri=NOTE)
        await beta.hears(lambda: bool(beta.updates))
        await both.hears(lambda: f"{OWN}?clientId=beta" in both.updates)
        # a server of the modern era may have changed while another subscription was made, so it may be told twice
        assert set(acme.updates) == {f"{OWN}?clientId=acme"}
        assert set(beta.updates) == {f"{OWN}?clientId=beta"}
        if era == "legacy":
            assert both.updates == [f"{OWN}?clientId=acme", f"{OWN}?clientId=beta"]


@ERAS
async def test_one_subscription_at_a_shared_server_is_for_all_clients_and_ends_with_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, era: str
) -> None:
    async with house(monkeypatch, tmp_path, era) as home:
        common, begun = home.books["common"], len(home.books["common"].opened)
        acme = await home.ear("acme", "legacy", f"{COMMON}?clientId=acme")
        gamma = await home.ear("gamma", "legacy", f"{COMMON}?clientId=gamma")
        if era == "legacy":
            await until(common, lambda: ("resources/subscribe", NOTE) in followed(common))
        else:
            await common.opened.reach(begun + 1)
        common.tell("", "resources/updated", uri=NOTE)
        await acme.hears(lambda: acme.updates == [f"{COMMON}?clientId=acme"])
        await gamma.hears(lambda: gamma.updates == [f"{COMMON}?clientId=gamma"])
        await acme.ask("resources/unsubscribe", {"uri": f"{COMMON}?clientId=acme"})
        await gamma.ask("resources/unsubscribe", {"uri": f"{COMMON}?clientId=gamma"})
        if era == "legacy":
            await until(common, lambda: ("resources/unsubscribe", NOTE) in followed(common))
            assert followed(common) == [("resources/subscribe", NOTE), ("resources/unsubscribe", NOTE)]
        else:
            await common.opened.reach(begun + 2)
            assert followed(common)[begun:] == [(NOTE,), ()]


async def test_a_subscription_may_be_named_by_the_header_or_another_spelling_and_is_told_by_its_whole_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path, "legacy") as home:
        own = home.books["own"]
        ear = await home.ear("two", "legacy")
        for uri, headers in ((OWN, {"X_Client_ID": "Acme"}), (f"{OWN}?clientId=ACME", {})):
            assert "result" in await ear.ask("resources/subscribe", {"uri": uri}, **headers)
        listening = Ear(home.desk("two"), "modern")
        home.ears.append(listening)
        uris = (OWN, f"{OWN}?clientId=Beta", f"{OWN}?clientId=gamma", f"{SOME}?clientId=")
        agreed = await listening.open(False, *uris, **{"X-Client-ID": "beta"})
        assert agreed == [f"{OWN}?clientId=beta", f"{SOME}?clientId=beta"]
        begun = [("resources/subscribe", NOTE)]
        await until(own, lambda: followed(own, "t-acme") == followed(own, "t-beta") == begun)
        own.tell("t-acme", "resources/updated", uri=NOTE)
        own.tell("t-beta", "resources/updated", uri=NOTE)
        await ear.hears(lambda: bool(ear.updates))
        await listening.hears(lambda: bool(listening.updates))
        assert (ear.updates, listening.updates) == ([f"{OWN}?clientId=acme"], [f"{OWN}?clientId=beta"])
        guard = await ear.ask("resources/subscribe", {"uri": "zorivest://guard"}, X_Client_ID="beta")
        assert "result" in guard
        for uri, given, code in (
            (OWN, {}, "client_missing"),
            (f"{OWN}?clientId=gamma", {}, "client_unknown"),
            (f"{OWN}?clientId=acme", {"X_Client_ID": "beta"}, "client_conflict"),
        ):
            refused = await ear.ask("resources/subscribe", {"uri": uri}, **given)
            assert (refused["error"]["code"], refused["error"]["data"]["code"]) == (-32602, code)
        gone = await ear.ask("resources/unsubscribe", {"uri": OWN}, X_Client_ID="acme")
        assert gone["result"] == {}
        await until(own, lambda: followed(own, "t-acme")[-1] == ("resources/unsubscribe", NOTE))


# --- lists that change


@pytest.mark.parametrize("kind", ["prompts", "resources", "tools"])
async def test_a_change_of_one_clients_lists_is_told_to_those_who_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    other = {"prompts": {**PROMPT, "name": "later"}, "tools": {**TOOL, "name": "later"}}
    async with house(monkeypatch, tmp_path, more='pin = "off"') as home:
        ears = {(key, era): await home.ear(key, era) for key in GRANTS for era in ("modern", "legacy", "sse")}
        own, heard = home.books["own"], dict.fromkeys(GRANTS, 0)
        turns = (("t-acme", ("acme", "two", "all")), ("t-beta", ("beta", "two", "all")), ("", tuple(GRANTS)))
        for turn, (bearer, concerned) in enumerate(turns):
            book = own if bearer else home.books["common"]
            book.of_bearer[bearer][kind] = [other.get(kind, {"uri": f"note://later-{turn}", "name": "later"})]
            book.tell(bearer, f"{kind}/list_changed")
            for key in concerned:
                heard[key] += 1
            for (key, _), ear in ears.items():
                await ear.hears(lambda ear=ear, key=key: len(ear.lists) == heard[key])  # type: ignore[misc]
        # the last change was for all, and came after whatever else was told
        assert {place: ear.lists for place, ear in ears.items()} == {
            (key, era): [kind] * heard[key] for key, era in ears
        }  # fmt: skip
        if kind == "prompts":
            assert await home.names("acme", kind) == ["common__later", "some__brief", "own__later"]


async def test_a_file_that_assigns_a_server_to_another_client_tells_those_two_and_moves_what_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path, "legacy") as home:
        some = home.books["some"]
        acme = await home.ear("acme", "legacy", f"{SOME}?clientId=acme")
        beta = await home.ear("beta", "legacy", f"{SOME}?clientId=beta")
        gamma = await home.ear("gamma", "legacy")
        await until(some, lambda: bool(followed(some)))
        text = home.config.read_text()
        monkeypatch.setenv("T_gamma", "t-gamma")
        home.config.write_text(text.replace('name = "some"', 'name = "some"\nauth_bearer_env = "T_gamma"').replace(
            'tenants = ["acme", "beta"]\n[', 'tenants = ["beta", "gamma"]\n['
        ))  # fmt: skip
        await home.served.journal.reload()
        gateway = home.served.journal.gateway()
        assert gateway is not None
        await gateway.settle(20)
        for ear in (acme, gamma):
            await ear.hears(lambda ear=ear: {"tools", "prompts", "resources"} <= set(ear.lists))  # type: ignore[misc]
        assert await home.names("acme", "resources") == [f"{COMMON}?clientId=acme", f"{OWN}?clientId=acme"]
        assert await home.names("gamma", "resources") == [f"{COMMON}?clientId=gamma", f"{SOME}?clientId=gamma"]
        await until(some, lambda: followed(some, "t-gamma") == [("resources/subscribe", NOTE)])
        some.tell("t-gamma", "resources/updated", uri=NOTE)
        await beta.hears(lambda: f"{SOME}?clientId=beta" in beta.updates)
        assert acme.updates == [], "it has the server no longer"


# --- who may read, and as what


async def test_the_header_names_the_client_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path) as home:
        for id in ("acme", "beta"):
            read = await home.read("two", OWN, X_Client_ID=id)
            assert read["result"]["contents"][0]["text"] == f"own by {id}: {NOTE}"
            assert read["result"]["contents"][0]["uri"] == f"{OWN}?clientId={id}"
            assert "deprecated" in read["result"]["_meta"]["com.zorivest/notice"]
            got = await home.get("two", "own__brief", {"X_Client_ID": id}, topic="x")
            assert got["result"]["messages"][1]["content"]["text"].startswith(f"own by {id}")
        for answer in (
            await home.read("two", f"{OWN}?clientId=acme", X_Client_ID="beta"),
            await home.get("two", "own__brief", {"X_Client_ID": "beta"}, topic="x", clientId="acme"),
        ):
            assert (answer["error"]["code"], answer["error"]["data"]["code"]) == (-32602, "client_conflict")
        for answer in (
            await home.read("two", OWN, X_Client_ID=["acme", "beta"]),
            await home.get("two", "own__brief", {"X_Client_ID": ["acme", "beta"]}, topic="x"),
        ):
            assert answer["error"]["data"]["code"] == "client_header_multiple"


async def test_with_more_than_twenty_clients_there_are_templates_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"c{number:02}" for number in range(21)] + ["acme", "beta", "gamma"]
    rules = [access_rule("key-many", ids[:21], "many"), access_rule("key-few", ids[:20], "few"), *RULES]
    async with house(monkeypatch, tmp_path, ids=ids, access=rules) as home:
        assert await home.names("few", "resources") == [f"{COMMON}?clientId={id}" for id in ids[:20]]
        assert await home.names("many", "resources") == []
        answer = await home.ask("many", "resources/templates/list", {})
        texts = [
            each["uriTemplate"] for each in answer["result"]["resourceTemplates"] if "upstream" in each["uriTemplate"]
        ]
        assert texts == [f"{COMMON}{{?clientId}}", f"{COMMON}/{{page}}{{?clientId}}"]
        assert "result" in await home.read("many", f"{COMMON}?clientId=c20")
        for text in texts:
            params = {"ref": {"type": "ref/resource", "uri": text}, "argument": {"name": "clientId", "value": "c2"}}
            answer = await home.ask("many", "completion/complete", params)
            assert answer["result"]["completion"]["values"] == ["c20"]


async def test_a_uri_with_a_query_of_its_own_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "note://book?clientId=theirs&v=1"

    def put(books: dict[str, Book]) -> None:
        books["common"].of_bearer[""]["resources"] = [{"uri": theirs, "name": "q"}]
        books["common"].of_bearer[""]["resourceTemplates"] = [{"uriTemplate": "note://book{?v}", "name": "t"}]

    async with house(monkeypatch, tmp_path, before=put) as home:
        uri = f"upstream:common:{theirs}&clientId=acme"
        assert (await home.names("acme", "resources"))[0] == uri
        read = await home.read("acme", uri)
        assert read["result"]["contents"] == [
            {"uri": uri, "text": f"common by : {theirs}", "_meta": {"com.zorivest/untrusted": True}}
        ]
        assert home.books["common"].of("resources/read")[-1].params["uri"] == theirs
        answer = await home.ask("acme", "resources/templates/list", {})
        texts = [each["uriTemplate"] for each in answer["result"]["resourceTemplates"]]
        assert "upstream:common:note://book{?v}{&clientId}" in texts


async def test_what_a_client_may_not_do_its_reads_may_not_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, Any] = {
        "acme": {"callsPerMinute": 2}, "beta": {"readOnly": True}, "gamma": {"apiKeyEnv": "KEY_THAT_IS_NOT_SET"},
    }  # fmt: skip
    async with house(monkeypatch, tmp_path, **limits) as home:
        monkeypatch.delenv("KEY_THAT_IS_NOT_SET")
        uri, common = f"{COMMON}?clientId=", home.books["common"]
        assert "result" in await home.read("all", f"{uri}acme")
        assert "result" in await home.get("all", "common__brief", clientId="acme", topic="x")
        for answer in (
            await home.read("all", f"{uri}acme"),
            await home.get("all", "common__brief", clientId="acme", topic="x"),
        ):
            assert (answer["error"]["code"], answer["error"]["data"]["code"]) == (-32602, "client_rate")
        assert "result" in await home.read("all", f"{uri}beta"), "it reads"
        refused = await home.read("all", f"{uri}gamma")
        assert refused["error"]["data"]["code"] == "client_unconfigured"
        before = len(common.seen)
        home.served.backends.locked.add("beta")
        locked = await home.read("all", f"{uri}beta")
        assert "locked" in locked["error"]["message"]
        assert "error" in await home.get("all", "common__brief", clientId="beta", topic="x")
        assert len(common.seen) == before, "the guard comes first"


async def test_each_clients_own_definition_of_a_prompt_counts_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differ(books: dict[str, Book]) -> None:
        books["own"].of_bearer["t-beta"]["prompts"] = [
            {"name": "brief", "arguments": [{"name": "page", "required": True}]}
        ]

    async with house(monkeypatch, tmp_path, before=differ) as home:
        listed = (await home.ask("beta", "prompts/list", {}))["result"]["prompts"]
        (shown,) = [each for each in listed if each["name"] == "own__brief"]
        assert [each["name"] for each in shown["arguments"]] == ["clientId", "page"]
        assert "topic" not in json.dumps([each for each in listed if "__" in each["name"] and "own" in each["name"]])
        good = await home.get("two", "own__brief", clientId="beta", page="1")
        assert good["result"]["messages"][1]["content"]["text"] == "own by beta: {'page': '1'}"
        wrong = await home.get("two", "own__brief", clientId="acme", page="1")
        assert wrong["error"]["message"] == "prompt own__brief needs the argument topic"


async def test_a_server_that_refuses_one_clients_token_is_away_for_that_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(books: dict[str, Book]) -> None:
        own = books["own"]

        async def judge(seen: Seen) -> web.StreamResponse:
            return web.Response(status=401) if own.whose(seen) == "t-acme" else own.answer(seen)

        own.handlers["server/discover"] = judge

    async with house(monkeypatch, tmp_path, before=refuse) as home:
        assert await home.names("two", "resources") == [
            *(f"{server}?clientId=acme" for server in (COMMON, SOME)),
            *(f"{server}?clientId=beta" for server in (COMMON, SOME, OWN)),
        ]
        assert "result" in await home.get("two", "own__brief", clientId="beta", topic="x")
        for key in ("two", "acme"):
            for answer in (
                await home.get(key, "own__brief", clientId="acme", topic="x"),
                await home.read(key, f"{OWN}?clientId=acme"),
            ):
                assert answer["error"]["code"] == -32602
                assert 'MCP server "own" is auth_failed' in answer["error"]["message"]
        missing = await home.get("acme", "own__brief", topic="x")
        assert missing["error"]["data"]["code"] == "client_missing"


async def test_a_prompt_with_our_argument_is_left_out_until_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    theirs = {"name": "brief", "arguments": [{"name": "clientId", "required": True}, {"name": "topic"}]}

    def take(books: dict[str, Book]) -> None:
        for name in ("common", "some"):
            books[name].of_bearer[""]["prompts"] = [theirs]

    renamed = PROFILE.replace('name = "some"', 'name = "some"\nargument_renames = {{ clientId = "customer" }}')
    with caplog.at_level(logging.WARNING):
        async with house(monkeypatch, tmp_path, before=take, profile=renamed) as home:
            assert await home.names("acme", "prompts") == ["some__brief", "own__brief"]
            good = await home.get("acme", "some__brief", clientId="acme", customer="7", topic="x")
            assert good["result"]["messages"][1]["content"]["text"] == "some by : {'clientId': '7', 'topic': 'x'}"
            ref = {"type": "ref/prompt", "name": "some__brief"}
            context = {"arguments": {"clientId": "acme", "topic": "y"}}
            params = {"ref": ref, "argument": {"name": "customer", "value": "7"}, "context": context}
            assert (await home.ask("acme", "completion/complete", params))["result"]["completion"]["values"]
            asked = home.books["some"].of("completion/complete")[-1].params
            assert asked["argument"] == {"name": "clientId", "value": "7"}
            assert asked["context"] == {"arguments": {"topic": "y"}}
    assert 'common: the prompt brief is not offered: its argument "clientId" is one of ours' in caplog.text


async def test_a_question_while_a_prompt_is_read_is_that_of_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(books: dict[str, Book]) -> None:
        async def brief(seen: Seen) -> web.StreamResponse:
            if "inputResponses" in seen.params:
                return seen.result(messages=[], resultType="complete")
            form = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
            question = {"mode": "form", "message": "Sure?", "requestedSchema": form}
            asked = {"q": {"method": "elicitation/create", "params": question}}
            return seen.result(resultType="input_required", requestState="s", inputRequests=asked)

        books["own"].handlers["prompts/get"] = brief

    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
    }
    async with house(monkeypatch, tmp_path, before=ask) as home:

        async def get(client: str, **more: Any) -> Any:
            params = {"name": "own__brief", "arguments": {"clientId": client, "topic": "x"}, "_meta": meta, **more}
            headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "prompts/get", "Mcp_Name": "own__brief"}
            return (await home.desk("two").post("prompts/get", params, **headers))[1]

        first = (await get("acme"))["result"]
        ((name, question),) = first["inputRequests"].items()
        assert question["params"]["message"] == "For client Desk of acme: [own] Sure?"
        given = {name: {"action": "accept", "content": {"yes": True}}}
        stolen = await get("beta", inputResponses=given, requestState=first["requestState"])
        assert stolen["error"]["code"] == -32602
        good = await get("acme", inputResponses=given, requestState=first["requestState"])
        assert len(good["result"]["messages"]) == 1, good
        asked = [home.books["own"].whose(seen) for seen in home.books["own"].of("prompts/get")]
        assert asked == ["t-acme", "t-acme"]


# --- what is not loaded by itself


async def test_a_server_that_is_not_loaded_by_itself_is_in_no_list_and_read_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = PROFILE.replace('name = "own"\n', 'name = "own"\nautoload = false\n')
    async with house(monkeypatch, tmp_path, profile=profile) as home:
        for key in ("acme", "two"):
            assert [name for name in await home.names(key, "prompts") if name.startswith("own__")] == []
            assert [uri for uri in await home.names(key, "resources") if uri.startswith("upstream:own:")] == []
            assert "some__brief" in await home.names(key, "prompts")
            assert "acme" in str(await home.get(key, "own__brief", clientId="acme", topic="x"))
            assert "acme" in str(await home.read(key, f"{OWN}?clientId=acme"))
        assert "error" in await home.get("gamma", "own__brief", clientId="gamma", topic="x")


async def test_a_server_that_tells_one_client_the_token_of_another_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path) as home:

        async def gossip(seen: Seen) -> web.StreamResponse:
            return seen.result(messages=[{"role": "user", "content": {"type": "text", "text": "t-acme and t-beta"}}])

        home.books["own"].handlers["prompts/get"] = gossip
        for id in ("acme", "beta"):
            told = json.dumps(await home.get(id, "own__brief", clientId=id, topic="x"))
            assert "[redacted] and [redacted]" in told
            assert "t-acme" not in told
            assert "t-beta" not in told
