"""What a server offers: its name, its tools, prompts, resources and completions, as the methods ask for them.

A shelf may answer differently for each session; the simple ones here answer the same for all and can be changed while
the server runs. Code that changes one calls `announce_change`, which notifies the sessions that have to know.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec

from zorivest_rpc.errors import CatalogError, ProtocolError, ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Outcome, Scope
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.protocol.content import Block
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "TOOLS",
    "Completion",
    "ListWatch",
    "Offer",
    "Prompt",
    "PromptShelf",
    "Resource",
    "ResourceShelf",
    "Stream",
    "Template",
    "ToolShelf",
    "Toolbox",
    "message",
    "run_in_thread",
]

TOOLS, PROMPTS, RESOURCES = "tools", "prompts", "resources"  # the lists that can change

Messages: TypeAlias = list[dict[str, Json]]


class Toolbox(Protocol):
    """Tools as one session sees them, and the chain that runs each. `headers` are those of the request."""

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View: ...

    def handler(self, name: str) -> Handler: ...

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        """The arguments that are the tool's own, and on whose behalf it is called; ToolError where that is unclear."""

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        """Why this session may not call a tool that it can find, before its arguments are looked at."""

    def report_mismatch(self, call: Call, more: int) -> None:
        """The result of a call did not fit its schema: it became an error, this many bytes longer."""


class ToolShelf:
    """The same tools for every session."""

    def __init__(self, tools: Iterable[tuple[Tool, Handler]] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        self._tools: dict[str, Tool] = {}
        for tool, handler in tools:
            self.add(tool, handler)
        self._view = View(self._tools.values())

    def add(self, tool: Tool, handler: Handler) -> None:
        if tool.name in self._tools:
            raise CatalogError(tool.name, "/name", "two tools have this name")
        self._tools[tool.name] = tool
        self._handlers[tool.name] = handler
        self._view = View(self._tools.values())

    def remove(self, name: str) -> None:
        """A call that is running keeps the tool it found."""
        del self._tools[name], self._handlers[name]
        self._view = View(self._tools.values())

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        return self._view

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return arguments, EVERYONE

    def handler(self, name: str) -> Handler:
        return self._handlers[name]

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        return None

    def report_mismatch(self, call: Call, more: int) -> None:
        return


def run_in_thread(function: Callable[[Call], Outcome]) -> Handler:
    """A handler for code that blocks: it runs in a thread, so that the loop stays responsive.

    A thread cannot be stopped from outside: a long function looks at `call.cancelled` from time to time."""

    async def handler(call: Call) -> Outcome:
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, function, call)

    return handler


class Prompt(msgspec.Struct, frozen=True):
    """`arguments` are (name, description, required)."""

    name: str
    description: str
    get: Callable[[Call], Awaitable[Messages]]
    arguments: tuple[tuple[str, str, bool], ...] = ()
    title: str | None = None
    icons: list[Json] | None = None
    meta: dict[str, Json] | None = None

    def wire(self) -> dict[str, Json]:
        given: dict[str, Json] = {"name": self.name, "description": self.description}
        if self.arguments:
            given["arguments"] = [{"name": n, "description": d, "required": r} for n, d, r in self.arguments]
        return given | _present(title=self.title, icons=self.icons, _meta=self.meta)


def message(content: Block, role: str = "user") -> dict[str, Json]:
    return {"role": role, "content": content}


class PromptShelf:
    def __init__(self, prompts: Iterable[Prompt] = ()) -> None:
        self._prompts = {prompt.name: prompt for prompt in prompts}

    def visible(self, session: Session) -> Sequence[Prompt]:
        return tuple(self._prompts.values())

    def find(self, session: Session, name: str) -> Prompt | None:
        return self._prompts.get(name)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        """As of a toolbox, for one prompt."""
        return arguments, EVERYONE

    def find_for(self, session: Session, prompt: Prompt, scope: Scope) -> Prompt:
        """The prompt of that name as it is for the one that it is asked for; ToolError where there is none for it."""
        return prompt


class Resource(msgspec.Struct, frozen=True):
    """`read` returns the entries of `contents`; `extra` holds description, mimeType, size, annotations, icons."""

    uri: str
    name: str
    read: Callable[[Call], Awaitable[list[Block]]]
    extra: dict[str, Json] = {}

    def wire(self) -> dict[str, Json]:
        return {"uri": self.uri, "name": self.name, **self.extra}


class Template(msgspec.Struct, frozen=True):
    """A family of resources; the variables of the URI arrive as `call.arguments`."""

    uri_template: str
    name: str
    read: Callable[[Call], Awaitable[list[Block]]]
    extra: dict[str, Json] = {}

    def wire(self) -> dict[str, Json]:
        return {"uriTemplate": self.uri_template, "name": self.name, **self.extra}

    def match(self, uri: str) -> dict[str, str] | None:
        from urllib.parse import unquote

        found = _pattern(self.uri_template).match(uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


_patterns: Final[dict[str, re.Pattern[str]]] = {}


def _pattern(template: str) -> re.Pattern[str]:
    """Simple expansion, `{name}` for one segment, and reserved expansion, `{+name}` for the rest."""
    found = _patterns.get(template)
    if found is None:
        parts = re.split(r"\{(\+?)(\w+)\}", template)
        text = re.escape(parts[0])
        for plus, name, literal in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            text += f"(?P<{name}>{'.+' if plus else '[^/]+'})" + re.escape(literal)
        found = _patterns[template] = re.compile(text + r"\Z")
    return found


class ResourceShelf:
    def __init__(self, resources: Iterable[Resource] = (), templates: Iterable[Template] = ()) -> None:
        self._resources = {resource.uri: resource for resource in resources}
        self._templates = tuple(templates)

    def visible(self, session: Session) -> Sequence[Resource]:
        return tuple(self._resources.values())

    def templates(self, session: Session) -> Sequence[Template]:
        return self._templates

    def admit(self, session: Session, headers: RequestHeaders | None, uri: str) -> tuple[str, Scope]:
        """The URI as the shelf has it, and on whose behalf it is read; ToolError where that is unclear."""
        return uri, EVERYONE

    def spell(self, session: Session, headers: RequestHeaders | None, uri: str) -> str:
        """The one URI under which a change of this resource is told; itself where it has no other."""
        return uri

    def may_follow(self, session: Session, uri: str) -> bool:
        """Whether this session may be told that the resource of this URI changed."""
        return True

    def find(
        self, session: Session, uri: str, scope: Scope = EVERYONE
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        found = self._resources.get(uri)
        if found is not None:
            return found, {}
        for template in self._templates:
            variables = template.match(uri)
            if variables is not None:
                return template, variables
        return None


class Completion(msgspec.Struct, frozen=True):
    values: list[str]
    total: int | None = None
    has_more: bool | None = None


Completer: TypeAlias = Callable[[Session, str, str, str, str, dict[str, str]], Awaitable[Completion | None]]
"""(session, "prompt" or "resource", name or URI template, argument, value, other arguments); None: unknown."""


class Stream(Protocol):
    """Where a client can be told that a list is another one."""

    @property
    def session(self) -> Session: ...

    @property
    def is_open(self) -> bool: ...

    def tell(self, kind: str) -> None:
        """This list is another one; said without looking any further."""


class ListWatch(Protocol):
    """Decides when a stream is told that one of its lists is another one, where lists change by themselves. Without
    one each is told at once."""

    def join(self, stream: Stream) -> None: ...

    def leave(self, stream: Stream) -> None: ...

    def opened(self, stream: Stream) -> None:
        """The stream can be written to, for the first time or again; or its session has just become ready."""

    def listed(self, stream: Stream, half: int | None = None) -> None:
        """Its client was given the list just now, or the first or second half of it (0 or 1)."""

    def note_change(self, session: Session | None = None) -> None: ...


_ALL_CHANGE: Final[Mapping[bool, Collection[str]]] = dict.fromkeys((False, True), (TOOLS, PROMPTS, RESOURCES))


class Offer:
    """Everything a server needs to know about what it serves. Absent parts are not advertised and do not answer.

    `changing` says by era (True: modern) which lists ever change; no client is told to wait for a change of the others.
    `watch` is called with a resource that got its first subscriber, and a function that says whether it still has one.
    `watches` decide, list by list, when a change of it is told; without one it is told at once.
    `holding` keeps what a session's calls need, such as its key, for work that outlives its request.
    `passage` judges the servers that a request says it has passed: one that leads in a circle is refused.
    `before_list` gives what a session's list of tools has to wait for, if there is something."""

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        about: dict[str, Json] | None = None,
        instructions: Callable[[Session], str | None] = lambda session: None,
        tools: Toolbox | None = None,
        prompts: PromptShelf | None = None,
        resources: ResourceShelf | None = None,
        complete: Completer | None = None,
        logging: bool = True,
        tasks: bool = False,
        changing: Mapping[bool, Collection[str]] = _ALL_CHANGE,
        holding: Callable[[Session], AbstractContextManager[object]] = lambda session: nullcontext(),
        watch: Callable[[str, Callable[[], bool]], None] = lambda uri, wanted: None,
        unwatch: Callable[[str], None] = lambda uri: None,
        watches: Mapping[str, ListWatch] = MappingProxyType({}),
        passage: Callable[[msgspec.Raw], ProtocolError | None] | None = None,
        before_list: Callable[[Session], Awaitable[None] | None] = lambda session: None,
        page_size: int = 1_000,
        ttl_ms: int = 0,
        shared: bool = False,
    ) -> None:
        self.info: dict[str, Json] = {"name": name, "version": version} | _present(title=title) | (about or {})
        self.instructions = instructions
        self.tools = tools
        self.prompts = prompts
        self.resources = resources
        self.complete = complete
        self.logging = logging
        self.tasks = tasks
        self.changing = changing
        self.holding = holding
        self.watch = watch
        self.unwatch = unwatch
        self.watches = watches
        self.passage = passage
        self.before_list = before_list
        self.page_size = page_size
        self.cache = (ttl_ms, "public" if shared else "private")
        self._listeners: list[Callable[[str, Session | None, str | None], None]] = []

    def announce_change(self, kind: str, session: Session | None = None) -> None:
        """A list changed, for everyone or for one legacy session."""
        for listener in self._listeners:
            listener(kind, session, None)

    def announce_update(self, uri: str, session: Session | None = None) -> None:
        """The content of a resource changed, for everyone or for one legacy session."""
        for listener in self._listeners:
            listener(RESOURCES, session, uri)

    def on_change(self, listener: Callable[[str, Session | None, str | None], None]) -> None:
        self._listeners.append(listener)


def _present(**fields: Json) -> dict[str, Json]:
    return {key: value for key, value in fields.items() if value is not None}
