"""Offers for the protocol tests: tools that hold, ask, fail and change things on command.

Gates take the place of time: `hold` waits until `open_gate` names the same gate, in any process, over any transport.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome, form, give, roots, sample, say, visit
from zorivest_rpc.mcp.catalog.tool import OPTIONAL, REQUIRED, Tool
from zorivest_rpc.mcp.offer import (
    Completion,
    Offer,
    Prompt,
    PromptShelf,
    Resource,
    ResourceShelf,
    Template,
    ToolShelf,
    message,
    run_in_thread,
)
from zorivest_rpc.mcp.protocol.content import Block, audio, embed, image, link, text
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.protocol.types import LEVELS

__all__ = ["SECRET", "bare", "many", "rich"]

STRING = {"type": "string"}
NAME = form("Your name?", {"name": {"type": "string", "minLength": 1}})
SECRET = "hunter2-and-a-key"


def name_in(answer: dict[str, Json]) -> str:
    """Only what was accepted has content that was checked."""
    return str(answer["content"]["name"]) if answer["action"] == "accept" else str(answer["action"])


def schema(*required: str, **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class Rich:
    """Everything at once."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._stopped: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._thread_gates: dict[str, threading.Event] = defaultdict(threading.Event)
        self.shelf = ToolShelf(self._tools())
        self.offer = Offer(
            "rich",
            "1.2.3",
            title="Rich",
            instructions=lambda session: f"for {session.revision.name}",
            tools=self.shelf,
            prompts=PromptShelf(self._prompts()),
            resources=ResourceShelf(*self._resources()),
            complete=self._complete,
            tasks=True,
        )

    # long: one table of tools, each beside its handler
    def _tools(self) -> list[tuple[Tool, Handler]]:
        gate = schema("gate", gate=STRING)
        anything: Json = {"type": "object"}

        def tool(name: str, handler: Handler, given: Json = None, **more: Json) -> tuple[Tool, Handler]:
            return Tool(name, f"For tests: {name}.", given, **more), handler

        mirrored = schema(
            "text",
            text={"type": "string", "x-mcp-header": "Text"},
            number={"type": "integer", "x-mcp-header": "Number"},
            flag={"type": "boolean", "x-mcp-header": "Flag"},
            nested=schema(inner={"type": "string", "x-mcp-header": "Inner"}),
        )
        return [
            tool("echo", self._echo, schema("text", text=STRING), output_schema=schema("text", text=STRING)),
            tool("anything", self._anything, anything),
            tool("whoami", self._whoami),
            tool("hold", self._hold, gate),
            tool("block", run_in_thread(self._block), gate),
            tool("open_gate", self._open_gate, gate),
            tool("await_stop", self._await_stop, gate),
            tool("progress", self._progress, schema("steps", steps={"type": "array", "items": {"type": "number"}})),
            tool("log_all", self._log_all),
            tool("raise", self._raise, schema("what", what=STRING, later={"type": "boolean"})),
            tool("tool_error", self._tool_error),
            tool("bad_output", self._bad_output, output_schema=schema("n", n={"type": "integer"})),
            tool(
                "no_output",
                self._no_output,
                output_schema=schema("n", n={"type": "integer"}),
                annotations={"readOnlyHint": True},
            ),
            tool("list_output", self._list_output, output_schema={"type": "array"}),
            tool("blocks", self._blocks),
            tool("ask_form", self._ask_form),
            tool("ask_url", self._ask_url),
            tool("ask_sample", self._ask_sample, schema(tools={"type": "boolean"})),
            tool("ask_roots", self._ask_roots),
            tool("ask_two", self._ask_two),
            tool("ask_rounds", self._ask_rounds, schema(extra={})),
            tool("ask_forever", self._ask_forever),
            tool("need_sampling", self._need_sampling),
            tool("mirrored", self._anything, mirrored),
            tool("change", self._change, schema("kind", kind={"enum": ["tools", "prompts", "resources"]})),
            tool("add_tool", self._add_tool, schema("name", name=STRING)),
            tool("touch", self._touch, schema("uri", uri=STRING)),
            tool("task_maybe", self._hold, gate, task=OPTIONAL),
            tool("task_only", self._echo, schema("text", text=STRING), task=REQUIRED),
            tool("task_tool_error", self._tool_error, task=REQUIRED),
            tool("task_protocol_error", self._protocol_error, task=REQUIRED),
            tool("task_raise", self._raise, schema("what", what=STRING, later={"type": "boolean"}), task=REQUIRED),
            tool("task_ask", self._ask_form, task=OPTIONAL),
            tool("task_progress", self._task_progress, gate, task=REQUIRED),
            tool("become_task", self._become_task),
        ]

    # --- plain

    async def _echo(self, call: Call) -> Outcome:
        return give({"text": call.arguments["text"]})

    async def _anything(self, call: Call) -> Outcome:
        return Outcome([text("taken")], {"given": call.arguments})

    async def _whoami(self, call: Call) -> Outcome:
        session = call.session
        return give(
            {
                "client": session.client.name if session.client else None,
                "revision": session.revision.name,
                "principal": session.principal,
                "level": session.log_level,
            }
        )

    # --- time

    async def _hold(self, call: Call) -> Outcome:
        call.progress(1)
        try:
            await self._gates[call.arguments["gate"]].wait()
        except asyncio.CancelledError:
            self._stopped[call.arguments["gate"]].set()
            raise
        return say("released")

    def _block(self, call: Call) -> Outcome:
        call.progress(1)
        gate = self._thread_gates[call.arguments["gate"]]
        while not gate.wait(0.02):
            if call.cancelled:
                break
        return say("stopped" if call.cancelled else "released")

    async def _open_gate(self, call: Call) -> Outcome:
        self._gates[call.arguments["gate"]].set()
        self._thread_gates[call.arguments["gate"]].set()
        return say("open")

    async def _await_stop(self, call: Call) -> Outcome:
        await self._stopped[call.arguments["gate"]].wait()
        return say("stopped")

    async def _progress(self, call: Call) -> Outcome:
        for step in call.arguments["steps"]:
            call.progress(step, 100, f"at {step}")
        outcome = say("done")
        outcome.after = [lambda: call.progress(1_000_000)]  # too late: the answer is out
        return outcome

    async def _log_all(self, call: Call) -> Outcome:
        for level in LEVELS:
            call.log(level, {"at": level}, "tests")
        outcome = say("logged")
        outcome.after = [lambda: call.log("emergency", "too late")]
        return outcome

    # --- failures

    async def _raise(self, call: Call) -> Outcome:
        if call.arguments.get("later"):
            await asyncio.sleep(0)
        match call.arguments["what"]:
            case "key":
                raise KeyError(SECRET)
            case "exit":
                raise SystemExit(3)
            case "cancelled":
                raise asyncio.CancelledError(SECRET)
            case "timeout":
                raise TimeoutError(SECRET)
            case "recursion":
                return await self._raise_deeper(call)
            case "group":
                raise ExceptionGroup(SECRET, [ValueError(SECRET)])
            case "stop":
                raise StopAsyncIteration(SECRET)
        raise ValueError(SECRET)

    async def _raise_deeper(self, call: Call) -> Outcome:
        return await self._raise_deeper(call)

    async def _tool_error(self, call: Call) -> Outcome:
        raise ToolError("No account A-17.", code="no_account", next="list_bank_accounts gives the ids.")

    async def _protocol_error(self, call: Call) -> Outcome:
        raise ProtocolError(INVALID_PARAMS, "refused by the job", {"why": "tests"})

    async def _bad_output(self, call: Call) -> Outcome:
        outcome = give({"n": "not a number", "secret": SECRET})
        outcome.meta = {"com.zorivest/receipt": {"changed": "one thing"}}
        return outcome

    async def _no_output(self, call: Call) -> Outcome:
        return say("no structure")

    async def _list_output(self, call: Call) -> Outcome:
        return Outcome([text("[1,2]")], [1, 2])

    async def _blocks(self, call: Call) -> Outcome:
        return Outcome(
            [
                text("words", annotations={"audience": ["user"], "priority": 0.5}),
                image(b"png", "image/png"),
                audio(b"wav", "audio/wav"),
                link("test://one", "one", title="The one"),
                embed({"uri": "test://one", "mimeType": "text/plain", "text": "one"}),
            ],
            {"structured": True},
            meta={"com.example/kept": 1},
        )

    # --- questions

    async def _ask_form(self, call: Call) -> Outcome:
        answer = call.need("name", NAME)
        return say(f"hello {name_in(answer)}" if answer["action"] == "accept" else answer["action"])

    async def _ask_url(self, call: Call) -> Outcome:
        answer = call.need("page", visit("Please sign in", "https://example.com/sign-in", "page-1"))
        return say(str(answer["action"]))

    async def _ask_sample(self, call: Call) -> Outcome:
        more: dict[str, Json] = {"tools": []} if call.arguments.get("tools") else {}
        words = [{"role": "user", "content": {"type": "text", "text": "Hi"}}]
        answer = call.need("words", sample(words, 10, **more))
        content = answer["content"]  # a block or several
        block = content if isinstance(content, dict) else next((each for each in content if isinstance(each, dict)), {})
        return say(f"model said {block.get('text')}")

    async def _ask_roots(self, call: Call) -> Outcome:
        return say(f"{len(call.need('roots', roots())['roots'])} roots")

    async def _ask_two(self, call: Call) -> Outcome:
        answers = call.need_all({"name": NAME, "roots": roots()})
        return say(f"{name_in(answers['name'])} has {len(answers['roots']['roots'])}")

    async def _ask_rounds(self, call: Call) -> Outcome:
        said = [name_in(call.need(key, NAME)) for key in ("first", "second", "third")]
        return say(" ".join(said))

    async def _ask_forever(self, call: Call) -> Outcome:
        number = 0
        while True:
            call.need(f"q{number}", NAME)
            number += 1

    async def _need_sampling(self, call: Call) -> Outcome:
        call.require(sample([], 1))
        return say("could ask")

    # --- changes

    async def _change(self, call: Call) -> Outcome:
        outcome = say("changed")
        outcome.after = [lambda: self.offer.announce_change(call.arguments["kind"])]
        return outcome

    async def _add_tool(self, call: Call) -> Outcome:
        self.shelf.add(Tool(call.arguments["name"], "Added later."), self._whoami)
        return say("added")

    async def _touch(self, call: Call) -> Outcome:
        self.offer.announce_update(call.arguments["uri"])
        return say("touched")

    async def _task_progress(self, call: Call) -> Outcome:
        call.progress(1, 2, "half way")
        return await self._hold(call)

    async def _become_task(self, call: Call) -> Outcome:
        name = name_in(call.need("name", NAME))
        call.continue_as_task()
        return say(f"task of {name}" if call.in_task else f"request of {name}")

    # --- prompts, resources, completion

    def _prompts(self) -> list[Prompt]:
        async def plain(call: Call) -> list[dict[str, Json]]:
            return [message(text("plain"))]

        async def named(call: Call) -> list[dict[str, Json]]:
            return [message(text(f"{call.arguments['a']} {call.arguments.get('b', '-')}"), "assistant")]

        async def sound(call: Call) -> list[dict[str, Json]]:
            return [message(audio(b"wav", "audio/wav"))]

        async def asks(call: Call) -> list[dict[str, Json]]:
            return [message(text(name_in(call.need("name", NAME))))]

        async def leaves(call: Call) -> list[dict[str, Json]]:
            raise SystemExit(4)

        return [
            Prompt("plain", "No arguments.", plain, title="Plain"),
            Prompt("named", "Two arguments.", named, (("a", "First", True), ("b", "Second", False))),
            Prompt("sound", "An audio block.", sound),
            Prompt("asks", "Asks first.", asks),
            Prompt("leaves", "Tries to end the process.", leaves),
        ]

    def _resources(self) -> tuple[list[Resource], list[Template]]:
        async def read(call: Call) -> list[Block]:
            return [{"uri": call.name, "mimeType": "text/plain", "text": f"content of {call.name}"}]

        async def asks(call: Call) -> list[Block]:
            name = name_in(call.need("name", NAME))
            return [{"uri": call.name, "text": f"for {name}"}]

        async def noted(call: Call) -> list[Block]:
            return [{"uri": call.name, "text": {"1": "first"}[call.arguments["id"]]}]

        async def leaves(call: Call) -> list[Block]:
            raise SystemExit(5)

        return [
            Resource("test://one", "one", read, {"mimeType": "text/plain"}),
            Resource("test://two", "two", read),
            Resource("test://asks", "asks", asks),
            Resource("test://leaves", "leaves", leaves),
        ], [Template("test://note/{id}", "note", noted), Template("test://file/{+path}", "file", read)]

    async def _complete(
        self, session: Session, kind: str, name: str, argument: str, value: str, others: dict[str, str]
    ) -> Completion | None:
        if (kind, name) == ("prompt", "named"):
            return Completion([f"{value}{number}" for number in range(150)])
        if (kind, name) == ("resource", "test://note/{id}"):
            if argument == "leave":
                raise SystemExit(6)
            return Completion([f"{argument}={value}", *sorted(others.values())])
        return None


def rich() -> Offer:
    return Rich().offer


def bare() -> Offer:
    """Nothing at all, not even a log."""
    return Offer("bare", "0", logging=False)


def many() -> Offer:
    """Lists that are long enough for pages."""

    async def ok(call: Call) -> Outcome:
        return say(call.name)

    async def words(call: Call) -> list[dict[str, Json]]:
        return [message(text(call.name))]

    async def read(call: Call) -> list[Block]:
        return [{"uri": call.name, "text": call.name}]

    return Offer(
        "many",
        "0",
        tools=ToolShelf((Tool(f"tool_{number:02}", "One of many."), ok) for number in range(23)),
        prompts=PromptShelf(Prompt(f"prompt_{number:02}", "One of many.", words) for number in range(11)),
        resources=ResourceShelf(
            [Resource(f"many://{number}", f"r{number}", read) for number in range(7)],
            [Template(f"many://{number}/{{id}}", f"t{number}", read) for number in range(5)],
        ),
    )
