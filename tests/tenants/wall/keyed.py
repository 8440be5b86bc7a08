"""Callers over HTTP, each with an access key, and what they hear on streams of their own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.tenants.wall.eye import Leak, check, look, search
from tests.tenants.wall.stage import LEGACY, MODERN, Desk
from tests.tenants.wall.walker import BOUNDED, SYNC, TENANTS, Place, Walker, weigh

__all__ = ["KEYS", "Listener", "OverHttp"]

KEYS = {
    "key-one": TENANTS[:4],
    "key-two": TENANTS[2:9],
    "key-three": TENANTS[8:12],
    "key-four": [TENANTS[15]],
    "key-all": TENANTS,
}
_EVENTS = {"Accept": "text/event-stream"}
_BOTH = {"Accept": "application/json, text/event-stream"}


class OverHttp(Walker):
    """An access key, in both eras by turns, with a session that is its own."""

    def __init__(self, desk: Desk, granted: list[str], others: list[Desk], rng: random.Random, place: Place) -> None:
        super().__init__(granted, rng, place)
        self.name = str(desk.key)
        self.echoed: str | None = None
        self.desk = desk._replace(watch=self._watch)
        self.able = desk.able
        self.others = others
        self.id = ""

    def acts(self) -> dict[str, int]:
        return super().acts() | weigh("session 5 figures 2 header 8 replay 2")

    def can_modern(self) -> bool:
        return True

    def _watch(self, text: str) -> None:
        search(text, self.granted, f"bytes for {self.name}", echoed=self.echoed)

    async def ask(self, method: str, params: dict[str, Any], era: str | None = None) -> dict[str, Any]:
        self.echoed = self._find_own_words(params)
        modern = self.rng.random() < 0.5 if era is None else era == MODERN
        if modern:
            answer: dict[str, Any] = (await self.desk.modern(method, params))[1]
            task = answer.get("result", {}).get("resultType") == "task"
            return await self.finish(answer["result"]["taskId"]) if task else answer
        return (await self.desk.post(method, params, **await self._session()))[1]  # type: ignore[no-any-return]

    async def _session(self) -> dict[str, str]:
        if not self.id:
            self.id = await self.desk.open()
        return {"Mcp_Session_Id": self.id, "MCP_Protocol_Version": LEGACY}

    def _find_own_words(self, params: dict[str, Any]) -> str | None:
        """A tenant that this caller names and may not: a refusal repeats it."""
        named = [params.get("arguments", {}).get("clientId"), str(params.get("uri", "")).rpartition("=")[2]]
        return next((each for each in named if each in TENANTS and each not in self.granted), None)

    async def listing(self) -> None:
        await super().listing()

    async def session(self) -> None:
        """The session of one key is none for another, whatever is asked of it."""
        if not self.id:
            return
        other = self.rng.choice(self.others)
        if other.key == self.desk.key:
            return
        headers = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": LEGACY, **_key(other)}
        status, answer, _ = await other.post("tools/list", {}, Mcp_Session_Id=self.id, MCP_Protocol_Version=LEGACY)
        check(status == 404, "a session served another key", answer)
        verb = self.rng.choice(("GET", "DELETE"))
        async with other.http.request(verb, other.url, headers={**headers, **_EVENTS}) as got:
            check(got.status == 404, f"{verb} of another key's session", got.status)
        self.did("a session was refused to another key")

    async def figures(self) -> None:
        url = self.desk.url.replace("/mcp", "/metrics")
        async with self.desk.http.get(url, headers=_key(self.desk)) as answer:
            look(await answer.text(), self.granted, None, "/metrics")

    async def header(self) -> None:
        tenant = self.pick()
        self.echoed = None
        result = await self.desk.call("list_trades", {}, X_Client_ID=tenant)
        look(result, self.granted, tenant, "a call by header")
        if tenant != BOUNDED:
            self.expected.calls[tenant] += 1

    async def replay(self) -> None:
        """A stream that was left with a question on it: its caller finds it again, and nobody else does."""
        tenant = self.pick()
        if tenant == BOUNDED or "elicitation" not in self.able:
            return
        async with asyncio.timeout(60):
            question, last = await self._leave_stream(tenant)
            if question is None:
                return
            other = self.rng.choice([each for each in self.others if each.key != self.desk.key])
            theirs = {"Mcp-Session-Id": await other.open(), "MCP-Protocol-Version": LEGACY, **_key(other), **_EVENTS}
            async with other.http.get(other.url, headers={**theirs, "Last-Event-ID": last}) as got:
                async for _, text in _events(got):
                    check("For client" not in text, f"a stream of {self.name} was replayed to {other.key}", text)
            await self._resume(tenant, question, last)
            self.did("a stream was replayed to its caller")

    async def _leave_stream(self, tenant: str) -> tuple[dict[str, Any] | None, str]:
        """The question that came on the stream of a call, and the event before it."""
        params = {"name": "sync_broker", "arguments": {"clientId": tenant, **SYNC}}
        message = {"jsonrpc": "2.0", "id": self.rng.randrange(1 << 40), "method": "tools/call", "params": params}
        headers = await self._headers()
        async with self.desk.http.post(self.desk.url, json=message, headers={**headers, **_BOTH}) as answer:
            if answer.content_type != "text/event-stream":
                self._watch(await answer.text())
                return None, ""
            last = ""
            async for id, text in _events(answer):
                self._watch(text)
                if text and "method" in (told := json.loads(text)):
                    look(told, self.granted, None, "a question")
                    check(f"For client Desk of {tenant}: " in text, "a question names another client", told)
                    return told, last
                if text:
                    return None, ""
                last = id
        return None, ""

    async def _resume(self, tenant: str, question: dict[str, Any], last: str) -> None:
        headers = await self._headers()
        own = {**headers, **_EVENTS, "Last-Event-ID": last}
        async with self.desk.http.get(self.desk.url, headers=own) as answer:
            async for _, text in _events(answer):
                if not text:
                    continue
                self._watch(text)
                told = json.loads(text)
                if "method" in told:
                    check(told["id"] == question["id"], "another's question was replayed", told)
                    no = {"jsonrpc": "2.0", "id": told["id"], "result": {"action": "decline"}}
                    async with self.desk.http.post(self.desk.url, json=no, headers={**headers, **_BOTH}) as taken:
                        check(taken.status == 202, "the answer to a question was refused", taken.status)
                else:
                    self.judge(told, "sync_broker", tenant)
                    return

    async def _headers(self) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in (await self._session()).items()}
        return {**named, **_key(self.desk)}


def _key(desk: Desk) -> dict[str, str]:
    return {"Authorization": f"Bearer {desk.key}"}


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    """Each event's id and data."""
    id, data = "", []
    async for line in answer.content:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        if name == "id":
            id = value.strip()
        elif name == "data":
            data.append(value.strip())
        elif not name and not value and data:
            yield id, "\n".join(data)
            data = []


class Listener:
    """What a caller hears while the walk goes on, on a stream of each era: it asks to follow every tenant's guard."""

    def __init__(self, desk: Desk, granted: list[str], place: Place) -> None:
        self._desk = desk
        self._granted = granted
        self._place = place

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._note(work())) for work in (self._listen_modern, self._listen_legacy)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _note(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Leak as leak:
            self._place.expected.faults.append(leak)

    async def _listen_modern(self) -> None:
        uris = [f"zorivest://guard?clientId={each}" for each in TENANTS]
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
        }
        params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": uris}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen", **_key(self._desk), **_BOTH}
        async with self._desk.http.post(self._desk.url, json=message, headers=headers, timeout=_ENDLESS) as answer:
            check(answer.status == 200, "a stream was refused", await answer.text() if answer.status != 200 else "")
            await self._judge(answer)

    async def _listen_legacy(self) -> None:
        desk = self._desk
        id = await desk.open()
        session = {"Mcp_Session_Id": id, "MCP_Protocol_Version": LEGACY}
        await desk.post("logging/setLevel", {"level": "debug"}, **session)
        for tenant in TENANTS:
            _, answer, _ = await desk.post(
                "resources/subscribe", {"uri": f"zorivest://guard?clientId={tenant}"}, **session
            )
            check(("result" in answer) is (tenant in self._granted), f"{desk.key} follows {tenant}", answer)
        headers = {"Mcp-Session-Id": id, "MCP-Protocol-Version": LEGACY, **_key(desk), **_EVENTS}
        async with desk.http.get(desk.url, headers=headers, timeout=_ENDLESS) as answer:
            await self._judge(answer)

    async def _judge(self, answer: aiohttp.ClientResponse) -> None:
        async for _, text in _events(answer):
            look(text, self._granted, None, f"an event for {self._desk.key}")
            self._place.expected.done["an event was heard"] += "resources/updated" in text


_ENDLESS = aiohttp.ClientTimeout(total=None)
