"""A model server on loopback that plays a script, in the shapes of the APIs that the agents speak.

OpenAI Responses (Codex), Chat Completions (opencode), Anthropic Messages (Claude Code) and Gemini generateContent
(Gemini CLI), each streaming. A request without tools of the journal is one of the agent's own errands, such as a title
for the conversation; it is answered with a word and uses up no step."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiohttp import web

from tests.interop.agents.script import Say, Script, Step, Use, full_name

Json = Any
MODEL = "scripted-1"
_MARK = "zorivest_emergency_stop"  # listed in every mode: a request that offers it is the conversation itself
_USAGE = {"input_tokens": 1, "output_tokens": 1}


class Model:
    """`url` is where it listens; `requests` keeps every request body, for whoever wants to look."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.url = ""
        self.requests: list[tuple[str, Json]] = []
        self.unknown: list[str] = []
        self._ids = count(1)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        for prefix in ("", "/v1"):
            app.router.add_post(f"{prefix}/responses", self._responses)
            app.router.add_post(f"{prefix}/chat/completions", self._completions)
            app.router.add_post(f"{prefix}/messages", self._messages)
            app.router.add_post(f"{prefix}/messages/count_tokens", self._count)
            app.router.add_get(f"{prefix}/models", self._models)
        app.router.add_post("/{version:v1(?:beta)?}/models/{model}:{verb}", self._gemini)
        app.router.add_route("*", "/{rest:.*}", self._other)
        return app

    def _id(self, kind: str) -> str:
        return f"{kind}_{next(self._ids)}"

    async def _body(self, request: web.Request) -> Json:
        body = json.loads(await request.read())
        self.requests.append((request.path, body))
        return body

    async def _other(self, request: web.Request) -> web.Response:
        self.unknown.append(f"{request.method} {request.path}")
        return web.json_response({"error": {"message": "not here", "type": "not_found"}}, status=404)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def _step(self, tools: list[str], results: list[str]) -> Step:
        if not any(name.endswith(_MARK) for name in tools):
            return Say("Trades")
        return self.script.next(tools, results)

    # --- OpenAI Responses: Codex

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        spaces = dict(_response_tools(body.get("tools", [])))
        results = [
            _plain(item["output"]) for item in body.get("input", []) if item.get("type", "").endswith("call_output")
        ]
        step = self._step(list(spaces), results)
        if isinstance(step, Use):
            name = full_name(step, spaces)
            space = spaces.get(name, "")
            item: Json = {
                "type": "function_call",
                "id": self._id("fc"),
                "call_id": self._id("call"),
                "name": name.removeprefix(f"{space}."),
                "arguments": json.dumps(dict(step.arguments)),
            } | ({"namespace": space} if space else {})
        else:
            content = [{"type": "output_text", "text": step.text, "annotations": []}]
            item = {"type": "message", "role": "assistant", "id": self._id("msg"), "content": content}
        answer = {"id": self._id("resp"), "object": "response", "model": MODEL, "output": [item]}
        usage = {**_USAGE, "total_tokens": 2, "input_tokens_details": None, "output_tokens_details": None}
        return await _events(
            request,
            [
                {"type": "response.created", "response": {"id": answer["id"]}},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": {**answer, "usage": usage}},
            ],
            named=True,
        )

    # --- Chat Completions: opencode

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        tools = [tool["function"]["name"] for tool in body.get("tools") or []]
        results = [_plain(message["content"]) for message in body["messages"] if message["role"] == "tool"]
        step = self._step(tools, results)
        if isinstance(step, Use):
            function = {"name": full_name(step, tools), "arguments": json.dumps(dict(step.arguments))}
            call = {"index": 0, "id": self._id("call"), "type": "function", "function": function}
            delta, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        else:
            delta, reason = {"role": "assistant", "content": step.text}, "stop"
        base = {"id": self._id("chatcmpl"), "object": "chat.completion.chunk", "created": 0, "model": MODEL}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": reason}
            return web.json_response({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
        return await _events(
            request,
            [
                {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
            ],
            last="[DONE]",
        )

    # --- Anthropic Messages: Claude Code

    async def _count(self, request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": 1})

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        tools = [tool["name"] for tool in body.get("tools") or []]
        blocks = [
            block
            for message in body["messages"]
            for block in message["content"]
            if isinstance(message["content"], list)
        ]
        results = [_plain(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]
        step = self._step(tools, results)
        head = {
            "id": self._id("msg"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", MODEL),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _USAGE,
        }
        if isinstance(step, Use):
            given = {"type": "tool_use", "id": self._id("toolu"), "name": full_name(step, tools), "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(dict(step.arguments))}
            reason, whole = "tool_use", {**given, "input": dict(step.arguments)}
        else:
            given, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}
            reason, whole = "end_turn", {"type": "text", "text": step.text}
        if not body.get("stream"):
            return web.json_response({**head, "content": [whole], "stop_reason": reason})
        return await _events(
            request,
            [
                {"type": "message_start", "message": head},
                {"type": "content_block_start", "index": 0, "content_block": given},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": None},
                    "usage": {"output_tokens": 1},
                },
                {"type": "message_stop"},
            ],
            named=True,
        )

    # --- Gemini generateContent: Gemini CLI

    async def _gemini(self, request: web.Request) -> web.StreamResponse:
        body = await self._body(request)
        if request.match_info["verb"] == "countTokens":
            return web.json_response({"totalTokens": 1})
        declared = [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations", [])]
        tools = [each["name"] for each in declared]
        parts = [part for content in body["contents"] for part in content.get("parts", [])]
        results = [_plain(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
        step = self._step(tools, results)
        part: Json = {"text": step.text} if isinstance(step, Say) else {}
        if isinstance(step, Use):
            part = {"functionCall": {"name": full_name(step, tools), "args": dict(step.arguments)}}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
            "modelVersion": MODEL,
        }
        if request.match_info["verb"] != "streamGenerateContent":
            return web.json_response(answer)
        return await _events(request, [answer])


def _response_tools(tools: list[Json]) -> Iterator[tuple[str, str]]:
    """Every function with the namespace it stands in; Codex puts those of an MCP server into one of their own."""
    for tool in tools:
        if tool.get("type") == "namespace":
            space = tool["name"]
            yield from ((f"{space}.{inner['name']}", space) for inner in tool["tools"] if "name" in inner)
        elif "name" in tool:
            yield tool["name"], ""


def _plain(value: Json) -> str:
    """The text of a tool's result, however the API wraps it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_plain(entry.get("text", entry) if isinstance(entry, dict) else entry) for entry in value)
    return json.dumps(value)


async def _events(
    request: web.Request, events: list[Json], *, named: bool = False, last: str | None = None
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        await response.write(f"{head}data: {json.dumps(event)}\n\n".encode())
    if last is not None:
        await response.write(f"data: {last}\n\n".encode())
    await response.write_eof()
    return response


@asynccontextmanager
async def serve_model(script: Script) -> AsyncIterator[Model]:
    """The model on a free port of this machine."""
    model = Model(script)
    runner = web.AppRunner(model.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    model.url = f"http://127.0.0.1:{port}"
    try:
        yield model
    finally:
        await runner.cleanup()
