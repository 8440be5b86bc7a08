"""Everything the official conformance suite expects a server to have, as an ordinary offer on this core."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from typing import Final

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Ask, Call, Handler, Outcome, form, roots, sample, say
from zorivest_rpc.mcp.catalog.tool import OPTIONAL, REQUIRED, Tool
from zorivest_rpc.mcp.offer import (
    PROMPTS,
    TOOLS,
    Completion,
    Offer,
    Prompt,
    PromptShelf,
    Resource,
    ResourceShelf,
    Template,
    ToolShelf,
    message,
)
from zorivest_rpc.mcp.protocol.content import Block, audio, embed, image, text
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, Json
from zorivest_rpc.mcp.protocol.session import Session

__all__ = ["build"]

PNG: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV: Final = b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0\x80>\0\0\x02\0\x10\0data\x02\0\0\0\0\0"
STRING: Final = {"type": "string"}


def arguments(required: tuple[str, ...] = (), **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required)}


def block_of(uri: str) -> Block:
    return embed({"uri": uri, "mimeType": "text/plain", "text": "This is an embedded resource."})


def user_says(words: str) -> list[Json]:
    return [{"role": "user", "content": {"type": "text", "text": words}}]


NAME_FORM: Final = form("What is your name?", {"name": STRING})
OK_FORM: Final = form("Go on?", {"ok": {"type": "boolean"}})
DEFAULTS: Final = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED: Final = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
ENUMS: Final = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
SCHEMA_2020: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": STRING, "city": STRING},
        }
    },
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}, {"required": ["name"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Fixtures:
    def __init__(self) -> None:
        self.offer = Offer(
            "zorivest-rpc-conformance",
            "1.0.0",
            instructions=lambda session: "Fixtures of the conformance suite.",
            tools=ToolShelf(self._tools()),
            prompts=PromptShelf(self._prompts()),
            resources=ResourceShelf(*self._resources()),
            complete=self._complete,
            tasks=True,
        )

    # --- tools

    def _tools(self) -> list[tuple[Tool, Handler]]:
        def tool(name: str, handler: Handler, schema: Json = None, task: str = "forbidden") -> tuple[Tool, Handler]:
            return Tool(name, f"Conformance fixture {name}.", schema or arguments(), task=task), handler

        header = {"type": "string", "x-mcp-header": "Greeting"}
        return [
            tool("test_simple_text", self._content(text("This is a simple text response for testing."))),
            tool("test_header_param", self._content(text("ok")), arguments(("greeting",), greeting=header)),
            tool("test_image_content", self._content(image(PNG, "image/png"))),
            tool("test_audio_content", self._content(audio(WAV, "audio/wav"))),
            tool("test_embedded_resource", self._content(block_of("test://embedded-resource"))),
            tool(
                "test_multiple_content_types",
                self._content(
                    text("Several kinds:"), image(PNG, "image/png"), block_of("test://mixed-content-resource")
                ),
            ),
            tool("test_error_handling", self._fails),
            tool("test_tool_with_progress", self._progress),
            tool("test_tool_with_logging", self._logging),
            tool("test_sampling", self._sampling, arguments(("prompt",), prompt=STRING)),
            tool("test_elicitation", self._elicitation, arguments(("message",), message=STRING)),
            tool("test_elicitation_sep1034_defaults", self._asks(form("Check these defaults", DEFAULTS, []))),
            tool("test_elicitation_sep1330_enums", self._asks(form("Choose", ENUMS, []))),
            tool("test_reconnection", self._reconnection),
            tool("test_missing_capability", self._missing_capability),
            tool("test_streaming_elicitation", self._asks(NAME_FORM)),
            tool("test_logging_tool", self._logging),
            tool("test_trigger_tool_change", self._changes(TOOLS)),
            tool("test_trigger_prompt_change", self._changes(PROMPTS)),
            tool("test_input_required_result_elicitation", self._asks(NAME_FORM, "user_name")),
            tool("test_input_required_result_sampling", self._asks(sample(user_says("Capital of France?"), 100))),
            tool("test_input_required_result_list_roots", self._asks(roots())),
            tool("test_input_required_result_request_state", self._asks(OK_FORM, "confirm", "state-ok")),
            tool("test_input_required_result_multiple_inputs", self._multiple_inputs),
            tool("test_input_required_result_multi_round", self._multi_round),
            tool("test_input_required_result_tampered_state", self._asks(OK_FORM, "confirm")),
            tool("test_input_required_result_capabilities", self._what_can_be_asked),
            tool("json_schema_2020_12_tool", self._content(text("valid")), SCHEMA_2020),
            tool("greet", self._greet, arguments(("name",), name=STRING)),
            tool(
                "slow_compute", self._slow, arguments(("seconds",), seconds={"type": "number"}, label=STRING), OPTIONAL
            ),
            tool("failing_job", self._failing_job, task=REQUIRED),
            tool("protocol_error_job", self._protocol_error_job, task=REQUIRED),
            tool("confirm_delete", self._confirm_delete, arguments(("filename",), filename=STRING), REQUIRED),
            tool("multi_input", self._two_forms, task=REQUIRED),
            tool("test_tool_with_task", self._input_then_task),
        ]

    def _content(self, *blocks: Block) -> Handler:
        async def handler(call: Call) -> Outcome:
            return Outcome(list(blocks))

        return handler

    def _asks(self, ask: Ask, key: str = "answer", done: str = "") -> Handler:
        async def handler(call: Call) -> Outcome:
            answer = call.need(key, ask)
            return say(done or f"answered: {answer}")

        return handler

    def _changes(self, kind: str) -> Handler:
        async def handler(call: Call) -> Outcome:
            outcome = say(f"{kind} changed")
            outcome.after = [lambda: self.offer.announce_change(kind)]
            return outcome

        return handler

    async def _fails(self, call: Call) -> Outcome:
        raise ToolError("This tool intentionally returns an error for testing.")

    async def _progress(self, call: Call) -> Outcome:
        for done in (0, 50, 100):
            call.progress(done, 100, f"{done} of 100")
            await asyncio.sleep(0.05)
        return say("progress is complete")

    async def _logging(self, call: Call) -> Outcome:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            call.log("info", words)
            await asyncio.sleep(0.05)
        return say("logged")

    async def _sampling(self, call: Call) -> Outcome:
        answer = call.need("sample", sample(user_says(call.arguments["prompt"]), 100))
        return say(f"LLM response: {answer['content']}")

    async def _elicitation(self, call: Call) -> Outcome:
        answer = call.need("user", form(call.arguments["message"], {"username": STRING, "email": STRING}, []))
        return say(f"User response: {answer}")

    async def _reconnection(self, call: Call) -> Outcome:
        call.hang_up()
        await asyncio.sleep(0.2)
        return say("Reconnection test completed successfully.")

    async def _missing_capability(self, call: Call) -> Outcome:
        call.require(sample([], 1))
        return say("sampling is there")

    async def _multiple_inputs(self, call: Call) -> Outcome:
        asks = {"user_name": NAME_FORM, "capital": sample(user_says("Capital of France?"), 100), "roots": roots()}
        return say(f"answered: {sorted(call.need_all(asks))}")

    async def _multi_round(self, call: Call) -> Outcome:
        call.need("step1", NAME_FORM)
        call.need("step2", form("And your colour?", {"color": STRING}))
        return say("three rounds")

    async def _what_can_be_asked(self, call: Call) -> Outcome:
        kinds = {"form": NAME_FORM, "sample": sample(user_says("Hello?"), 100), "roots": roots()}
        allowed = {key: ask for key, ask in kinds.items() if call.can_ask(ask)}
        return say(f"answered: {sorted(call.need_all(allowed))}")

    async def _greet(self, call: Call) -> Outcome:
        return say(f"Hello, {call.arguments['name']}!")

    async def _slow(self, call: Call) -> Outcome:
        await asyncio.sleep(call.arguments["seconds"])
        return say(f"{call.arguments.get('label', 'work')} done")

    async def _failing_job(self, call: Call) -> Outcome:
        await asyncio.sleep(1)
        raise ToolError("The job failed.")

    async def _protocol_error_job(self, call: Call) -> Outcome:
        await asyncio.sleep(0.3)
        raise ProtocolError(INTERNAL_ERROR, "the job broke the protocol")

    async def _confirm_delete(self, call: Call) -> Outcome:
        answer = call.need("confirm", form(f"Delete {call.arguments['filename']}?", {"confirm": {"type": "boolean"}}))
        return say("deleted" if answer["action"] == "accept" else "kept")

    async def _two_forms(self, call: Call) -> Outcome:
        answers = call.need_all({"first": NAME_FORM, "second": form("Sure?", {"confirm": {"type": "boolean"}})})
        return say(f"answered: {sorted(answers)}")

    async def _input_then_task(self, call: Call) -> Outcome:
        answer = call.need("user_name", NAME_FORM)
        call.continue_as_task()
        await asyncio.sleep(0.2)
        return say(f"Done for {answer['content']['name']}")

    # --- prompts

    def _prompts(self) -> list[Prompt]:
        two = (("arg1", "First argument", True), ("arg2", "Second argument", True))
        return [
            Prompt("test_simple_prompt", "A prompt without arguments.", self._simple),
            Prompt("test_prompt_with_arguments", "A prompt with two arguments.", self._with_arguments, two),
            Prompt(
                "test_prompt_with_embedded_resource",
                "A prompt with a resource.",
                self._with_resource,
                (("resourceUri", "URI of the resource", True),),
            ),
            Prompt("test_prompt_with_image", "A prompt with an image.", self._with_image),
            Prompt("test_input_required_result_prompt", "A prompt that asks first.", self._asks_first),
        ]

    async def _simple(self, call: Call) -> list[dict[str, Json]]:
        return [message(text("This is a simple prompt for testing."))]

    async def _with_arguments(self, call: Call) -> list[dict[str, Json]]:
        return [message(text(f"arg1={call.arguments['arg1']} arg2={call.arguments['arg2']}"))]

    async def _with_resource(self, call: Call) -> list[dict[str, Json]]:
        return [message(block_of(call.arguments["resourceUri"])), message(text("Please look at it."))]

    async def _with_image(self, call: Call) -> list[dict[str, Json]]:
        return [message(image(PNG, "image/png")), message(text("Please describe it."))]

    async def _asks_first(self, call: Call) -> list[dict[str, Json]]:
        answer = call.need("user_name", form("What is this about?", {"context": STRING}, []))
        return [message(text(f"answered: {answer}"))]

    # --- resources

    def _resources(self) -> tuple[list[Resource], list[Template]]:
        def fixed(uri: str, name: str, mime_type: str, **content: str) -> Resource:
            async def read(call: Call) -> list[Block]:
                return [{"uri": uri, "mimeType": mime_type, **content}]

            return Resource(uri, name, read, {"mimeType": mime_type, "description": f"Fixture {name}."})

        async def templated(call: Call) -> list[Block]:
            return [{"uri": call.name, "mimeType": "application/json", "text": f'{{"id":"{call.arguments["id"]}"}}'}]

        from base64 import b64encode

        return [
            fixed("test://static-text", "static text", "text/plain", text="This is the content of the static text."),
            fixed("test://static-binary", "static binary", "image/png", blob=b64encode(PNG).decode()),
            fixed("test://watched-resource", "watched", "text/plain", text="watched"),
            fixed("test://example-resource", "example", "text/plain", text="example"),
        ], [Template("test://template/{id}/data", "template", templated, {"mimeType": "application/json"})]

    async def _complete(
        self, session: Session, kind: str, name: str, argument: str, value: str, others: dict[str, str]
    ) -> Completion | None:
        known = {"test_prompt_with_arguments", "test://template/{id}/data"}
        return Completion([f"{value}{end}" for end in ("1", "2")]) if name in known else None


def build() -> Offer:
    return Fixtures().offer
