"""Two streams of the HTTP+SSE pair are two sessions, even of one key: a token of one confirms nothing in the other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.serving.product.http import Served, serving


class Stream:
    """One client on `/sse` and `/messages`."""

    def __init__(self, served: Served, reply: aiohttp.ClientResponse) -> None:
        self._served, self._reply = served, reply
        self._endpoint = ""

    async def open(self) -> Stream:
        self._endpoint = await self._data()
        about = {"name": "Roo Code", "version": "1"}
        await self.ask("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": about})
        return self

    async def _data(self) -> str:
        async with asyncio.timeout(30):
            while True:
                line = (await self._reply.content.readline()).decode()
                if line.startswith("data: "):
                    return line[6:].strip()

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        async with self._served.http.post(self._served.url + self._endpoint, json=message) as posted:
            assert posted.status == 202
        while True:
            answer = json.loads(await self._data())
            if answer.get("id") == method:
                return answer["result"]

    async def call(self, name: str, **arguments: Any) -> Any:
        return await self.ask("tools/call", {"name": name, "arguments": arguments})


async def test_a_token_of_one_stream_is_nothing_on_another(data_dir: Path) -> None:
    async with (
        serving(data_dir) as served,
        served.http.get(served.url + "/sse") as first,
        served.http.get(served.url + "/sse") as second,
    ):
        one, other = await Stream(served, first).open(), await Stream(served, second).open()
        wanted = {"action": "sync_broker", "params_summary": "x"}
        token = (await one.call("get_confirmation_token", **wanted))["content"][0]["text"]
        token = json.loads(token)["token"]
        refused = await other.call("sync_broker", broker_id="b", confirmation_token=token)
        assert refused["_meta"]["com.zorivest/error"]["code"] == "confirmation_other_session"
        taken = await one.call("sync_broker", broker_id="b", confirmation_token=token)
        assert not taken["_meta"]["com.zorivest/error"]["code"].startswith("confirmation")  # there is no such broker
