"""A server that repeats the credential it was sent wherever it can: nothing that we say or keep has it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Noted, Seen, done, event, note
from tests.gateway.test_http_questions import Asking, Changing
from tests.serving.product.conftest import Client
from tests.serving.product.far import FORMS, opened, serve_far

SECRET = "s3cr/et-of\u00fc-ours"
KEY = "another-one-0123456789"  # no word that would make a form with it one for a secret
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}, "logging": {},
}  # fmt: skip
LISTS = {"prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}


class Parrot:
    """Every text that it says holds what it was sent."""

    def __init__(self, era: str) -> None:
        self.changing = Changing(era, CAPABILITIES)
        self.asking = Asking()
        self.fake = self.changing.fake
        self.fake.seen = Noted()
        self.fake.handlers |= {
            **dict.fromkeys(LISTS, self.list),
            "tools/list": self.list_tools,
            "tools/call": self.call,
            "prompts/get": self.get,
            "resources/read": self.read,
            "completion/complete": self.complete,
            "resources/subscribe": self.refuse,
            "logging/setLevel": self.refuse,
            "POST": self.asking.hear,
        }

    def heard(self, seen: Seen) -> str:
        return f"{seen.headers['Authorization'].removeprefix('Bearer ')} and {seen.headers['X-Key']}"

    async def list_tools(self, seen: Seen) -> web.StreamResponse:
        words = self.heard(seen)
        schema = {"type": "object", "properties": {"do": {"description": words, "default": words, "title": words}}}
        named = {**TOOL, "name": words.split()[-1]}
        output = {"type": "object", "properties": {"a": {"description": words}}}
        echo = {**TOOL, "title": words, "description": words, "inputSchema": schema, "outputSchema": output}
        return seen.result(tools=[echo, named])

    async def list(self, seen: Seen) -> web.StreamResponse:
        words = self.heard(seen)
        kind = LISTS[seen.method]
        items: dict[str, list[dict[str, Any]]] = {
            "prompts": [{"name": "p", "title": words, "description": words, "arguments": [{"name": words}]}],
            "resources": [
                {"uri": "x:///a", "name": words, "description": words},
                {"uri": f"x:///{words.split()[-1]}", "name": "n"},
            ],
            "resourceTemplates": [{"uriTemplate": "x:///t/{a}", "name": words, "description": words}],
        }
        listed: dict[str, Any] = {kind: items[kind]}
        return seen.result(**listed)

    async def call(self, seen: Seen) -> web.StreamResponse:
        words = self.heard(seen)
        match seen.params["arguments"]["do"]:
            case "refuse":
                return seen.error(-32000, f"not with {words}", data={"header": words})
            case "fail":
                return web.Response(status=500, reason="no", text=words)
            case "ask" if "inputResponses" not in seen.params:
                return await self.ask(seen)
            case "escape":
                text = "".join(f"\\u{ord(char):04x}" for char in words)
                spelled = f'{{"content":[{{"type":"text","text":"{text}"}}],"structuredContent":{{"a":"\\/{text}"}}}}'
                body = f'{{"jsonrpc":"2.0","id":{json.dumps(seen.id)},"result":{spelled}}}'
                return web.Response(body=body, content_type="application/json")
        response = await seen.stream()
        token = seen.params["_meta"]["progressToken"]
        await response.write(event(note("progress", progressToken=token, progress=1, message=words)))
        await response.write(event(note("message", level="error", data={"header": words}, logger=words)))
        link = {"type": "resource_link", "uri": f"x:///{words.split()[-1]}", "name": words}
        content = [
            {"type": "text", "text": words},
            link,
            {"type": "resource", "resource": {"uri": "x:", "text": words}},
        ]
        result = {"content": content, "structuredContent": {"a": words, words: [words]}}
        await response.write(event({"jsonrpc": "2.0", "id": seen.id, "result": result}))
        return response

    async def ask(self, seen: Seen) -> web.StreamResponse:
        words = self.heard(seen)
        field = {"type": "string", "title": words, "description": words, "default": words, "enum": [words]}
        params = {"message": words, "requestedSchema": {"type": "object", "properties": {"a": field}}}
        if self.fake.era == "modern":
            asked = {"k": {"method": "elicitation/create", "params": params}}
            return seen.result(resultType="input_required", inputRequests=asked)
        response = await seen.stream()
        await response.write(event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params}))
        await self.asking.answers.get()
        await response.write(event(done(words)(seen)))
        return response

    async def get(self, seen: Seen) -> web.StreamResponse:
        return seen.result(messages=[{"role": "user", "content": {"type": "text", "text": self.heard(seen)}}])

    async def read(self, seen: Seen) -> web.StreamResponse:
        return seen.result(contents=[{"uri": seen.params["uri"], "text": self.heard(seen)}])

    async def complete(self, seen: Seen) -> web.StreamResponse:
        return seen.result(completion={"values": [self.heard(seen)]})

    async def refuse(self, seen: Seen) -> web.StreamResponse:
        return seen.error(-32000, f"not with {self.heard(seen)}")


def read_all(place: Path) -> str:
    return "".join(path.read_text("utf-8", "replace") for path in place.rglob("*") if path.is_file())


async def do_everything(client: Client) -> str:
    """All that a client can ask for, and all that it was told, as one text."""
    told: list[Any] = []

    async def ask(method: str, **params: Any) -> Any:
        told.append(await client.request(method, params))
        return told[-1]

    for method in ("tools/list", *LISTS):
        await ask(method)
    await ask("logging/setLevel", level="debug")
    client.answers = [{"action": "accept", "content": {}}]
    for what in ("echo", "refuse", "fail", "escape", "ask"):
        params = {"name": "ops__echo", "arguments": {"do": what}}
        await ask("tools/call", **params, _meta={"progressToken": "p"})
    await ask("prompts/get", name="ops__p", arguments={})
    await ask("resources/read", uri="upstream:ops:x:///a")
    await ask("resources/read", uri="upstream:ops:x:///t/1")
    await ask("resources/subscribe", uri="upstream:ops:x:///a")
    await ask("completion/complete", ref={"type": "ref/prompt", "name": "ops__p"}, argument={"name": "a", "value": ""})
    await ask("tools/call", name="describe_toolset", arguments={"toolset_name": "mcp-ops"})
    await ask("tools/call", name="zorivest_diagnose", arguments={})
    await ask("tools/call", name="tool_search", arguments={"query": "ops echo"})
    return json.dumps([told, client.notifications, client.asked], ensure_ascii=False)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_no_client_log_or_file_has_what_a_server_repeats(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPS_TOKEN", f" {SECRET}\n")  # as a file that was read into a variable leaves it
    monkeypatch.setenv("OPS_KEY", KEY)
    events = tmp_path / "events"
    environ = {"ZORIVEST_TELEMETRY": str(events), "ZORIVEST_TELEMETRY_CAPTURE_CONTENT": "1"}
    entry = 'auth_bearer_env = "OPS_TOKEN"\nheaders_env = { X-Key = "OPS_KEY" }'
    parrot = Parrot(era)
    with caplog.at_level(logging.DEBUG):
        async with (
            serve_far(parrot.fake) as far,
            opened(
                far, tmp_path, 'approve_tool = ["*"]', entry=entry, capabilities=FORMS, environ=environ, name="zed"
            ) as client,
        ):
            told = await do_everything(client)
            parrot.changing.messages.put_nowait(None)
    assert "[redacted] and [redacted]" in told
    kept = read_all(tmp_path)
    assert "tool.succeeded" in kept
    for secret in (SECRET, KEY):
        for spelling in {secret, json.dumps(secret)[1:-1], secret.replace("/", "\\/")}:
            assert spelling not in told
            assert spelling not in kept
            assert spelling not in caplog.text
    assert len(parrot.fake.of("tools/call")) > 4
    assert "[ops] [redacted]" in told, "its form was shown"
