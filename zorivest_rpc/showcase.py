"""A few tools that show the protocol at work, served until a catalogue is there: echo, progress, cancelling, input,
logging and a list that changes. Also what a protocol engineer points a new client at."""

from __future__ import annotations

import asyncio

from zorivest_rpc import __version__
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Outcome, Scope, form, give, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import (
    TOOLS,
    Completion,
    Offer,
    Prompt,
    PromptShelf,
    Resource,
    ResourceShelf,
    Template,
    message,
)
from zorivest_rpc.mcp.protocol.content import Block, text
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.mcp.protocol.types import LEVELS

__all__ = ["offer"]

_INSTRUCTIONS = "A showcase of the protocol: call echo first, then count, wait, ask_name, log and toggle_extra."


def _object(properties: dict[str, Json], *required: str) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


class Showcase:
    """The tools, and the little they remember."""

    def __init__(self) -> None:
        self.offer = Offer(
            "zorivest-rpc",
            __version__,
            title="zorivest-rpc showcase",
            instructions=lambda session: _INSTRUCTIONS,
            tools=self,
            prompts=PromptShelf([Prompt("greet", "Greet somebody by name.", self._greet, (("name", "Who", True),))]),
            resources=ResourceShelf(
                [Resource("showcase://readme", "readme", self._readme, {"mimeType": "text/plain"})],
                [Template("showcase://note/{id}", "note", self._note, {"mimeType": "text/plain"})],
            ),
            complete=self._complete,
        )
        self._waiting = 0
        self._extra_for_all = False
        pairs = self._pairs()
        extra = Tool("extra", "A tool that is there only after toggle_extra.")
        self._handlers = {tool.name: handler for tool, handler in (*pairs, (extra, self._extra))}
        tools = [tool for tool, _ in pairs]
        self._plain = View(tools)
        self._full = View([*tools, extra])

    # long: the seven tools, each beside its handler
    def _pairs(self) -> list[tuple[Tool, Handler]]:
        return [
            (
                Tool(
                    "echo",
                    "Return the text that was sent.",
                    _object({"text": {"type": "string"}}, "text"),
                    output_schema=_object({"text": {"type": "string"}}, "text"),
                    annotations={"readOnlyHint": True},
                ),
                self._echo,
            ),
            (
                Tool(
                    "count",
                    "Count up to a number and report progress at each step.",
                    _object(
                        {
                            "to": {"type": "integer", "minimum": 1, "maximum": 1000},
                            "delay_ms": {"type": "integer", "minimum": 0, "maximum": 1000},
                        },
                        "to",
                    ),
                ),
                self._count,
            ),
            (
                Tool(
                    "wait",
                    "Wait for some seconds, or until the call is cancelled.",
                    _object({"seconds": {"type": "number", "minimum": 0, "maximum": 3600}}, "seconds"),
                ),
                self._wait,
            ),
            (Tool("running", "Tell how many wait calls are running now."), self._running),
            (Tool("ask_name", "Ask the user for a name and greet them."), self._ask_name),
            (
                Tool(
                    "log",
                    "Send one log message to the client.",
                    _object(
                        {"message": {"type": "string"}, "level": {"type": "string", "enum": list(LEVELS)}}, "message"
                    ),
                ),
                self._log,
            ),
            (
                Tool("toggle_extra", "Add or remove the tool extra, and tell the client that its list changed."),
                self._toggle,
            ),
        ]

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        shown = self._extra_for_all if session.revision.modern else "extra" in session.toolsets
        return self._full if shown else self._plain

    def handler(self, name: str) -> Handler:
        return self._handlers[name]

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return arguments, EVERYONE

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        return None

    def report_mismatch(self, call: Call, more: int) -> None:
        return

    async def _echo(self, call: Call) -> Outcome:
        words = call.arguments["text"]
        return Outcome([text(words)], {"text": words})

    async def _count(self, call: Call) -> Outcome:
        last = call.arguments["to"]
        for number in range(1, last + 1):
            call.progress(number, last, f"{number} of {last}")
            await asyncio.sleep(call.arguments.get("delay_ms", 0) / 1000)  # after it: some clients drop progress
            # that arrives in one read with the answer
        return say(f"counted to {last}")

    async def _wait(self, call: Call) -> Outcome:
        self._waiting += 1
        try:
            await asyncio.sleep(call.arguments["seconds"])
        finally:
            self._waiting -= 1
        return say(f"waited {call.arguments['seconds']} s")

    async def _running(self, call: Call) -> Outcome:
        return give({"waiting": self._waiting})

    async def _ask_name(self, call: Call) -> Outcome:
        answer = call.need("name", form("What is your name?", {"name": {"type": "string", "minLength": 1}}))
        return say(f"hello {answer['content']['name']}" if answer["action"] == "accept" else "declined")

    async def _log(self, call: Call) -> Outcome:
        level = call.arguments.get("level", "info")
        call.log(level, call.arguments["message"], "showcase")
        return say(f"logged at {level}")

    async def _toggle(self, call: Call) -> Outcome:
        session = call.session
        if session.revision.modern:
            self._extra_for_all = not self._extra_for_all
        else:
            session.toolsets ^= {"extra"}
        outcome = say("the list has changed")
        outcome.after = [lambda: self.offer.announce_change(TOOLS, session)]
        return outcome

    async def _extra(self, call: Call) -> Outcome:
        return say("extra")

    async def _greet(self, call: Call) -> list[dict[str, Json]]:
        return [message(text(f"Greet {call.arguments['name']} warmly."))]

    async def _readme(self, call: Call) -> list[Block]:
        return [{"uri": call.name, "mimeType": "text/plain", "text": _INSTRUCTIONS}]

    async def _note(self, call: Call) -> list[Block]:
        return [{"uri": call.name, "mimeType": "text/plain", "text": f"note {call.arguments['id']}"}]

    async def _complete(
        self, session: Session, kind: str, name: str, argument: str, value: str, others: dict[str, str]
    ) -> Completion | None:
        if (kind, name) == ("prompt", "greet"):
            return Completion([who for who in ("Ada", "Alan", "Grace") if who.lower().startswith(value.lower())])
        return Completion([]) if (kind, name) == ("resource", "showcase://note/{id}") else None


def offer() -> Offer:
    return Showcase().offer
