"""A handler that asks is run again from the top, as often in a task as in a request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.connect import PATIENCE, meta
from zorivest_rpc.mcp.call import Call, Outcome, form, say
from zorivest_rpc.mcp.catalog.tool import REQUIRED, Tool
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.offer import Offer, ToolShelf
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient

ROUNDS = 3
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
LEGACY: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t"},
}


class Asking:
    """A tool that asks a number of questions, one after the other, and counts how often it is run."""

    def __init__(self) -> None:
        self.runs = 0
        tools = [
            (Tool("ask", "Ask.", {"type": "object"}), self._ask),
            (Tool("ask_in_task", "Ask.", {"type": "object"}, task=REQUIRED), self._ask),
        ]
        self.offer = Offer("rounds", "1", tools=ToolShelf(tools), tasks=True)

    async def _ask(self, call: Call) -> Outcome:
        self.runs += 1
        answers = [
            call.need(f"q{number}", form("Name?", {"name": {"type": "string"}}))
            for number in range(call.arguments["questions"])
        ]
        return say(" ".join(answer["content"]["name"] for answer in answers))


async def request(client: MemoryClient, id: int, method: str, params: Any) -> Any:
    client.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
    async with asyncio.timeout(PATIENCE):
        while True:
            message = json.loads(await client.receive())
            if message.get("id") == id and "method" not in message:
                return message["result"]
            if "method" in message and "id" in message:
                answer = {"action": "accept", "content": {"name": "n"}}
                client.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode())


async def call_within(client: MemoryClient, questions: int) -> Any:
    await request(client, 1, "initialize", LEGACY)
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    return await request(client, 2, "tools/call", {"name": "ask", "arguments": {"questions": questions}})


async def call_in_task(client: MemoryClient, questions: int) -> Any:
    params = {"name": "ask_in_task", "arguments": {"questions": questions}, "_meta": meta(CAPABILITIES)}
    task = await request(client, 1, "tools/call", params)
    id = 2
    while True:
        about = {"taskId": task["taskId"], "_meta": meta(CAPABILITIES)}
        task = await request(client, id, "tasks/get", about)
        id += 1
        if task["status"] == "completed":
            return task["result"]
        if task["status"] == "input_required":
            answers = {key: {"action": "accept", "content": {"name": "n"}} for key in task["inputRequests"]}
            await request(client, id, "tasks/update", {**about, "inputResponses": answers})
            id += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize("way", [call_within, call_in_task])
async def test_as_many_questions_as_rounds_are_answered(way: Any) -> None:
    asking = Asking()
    client = MemoryClient(Server(asking.offer, limits=Limits(input_rounds=ROUNDS)))
    result = await way(client, ROUNDS)
    assert (result["content"][0]["text"], asking.runs) == ("n n n", ROUNDS + 1)
    client.close()


@pytest.mark.parametrize("way", [call_within, call_in_task])
async def test_one_question_more_is_refused_with_the_number_of_rounds(way: Any) -> None:
    asking = Asking()
    client = MemoryClient(Server(asking.offer, limits=Limits(input_rounds=ROUNDS)))
    result = await way(client, ROUNDS + 1)
    assert result["isError"] is True
    assert result["_meta"]["com.zorivest/error"]["code"] == "too_many_rounds"
    assert "after 3 rounds" in result["content"][0]["text"]
    assert asking.runs == ROUNDS + 1
    client.close()
