"""The prompts and resources of the upstreams as our clients find, read and follow them.

Rule 1: what is listed is what `examine_extras` published; what it holds is neither listed nor read, under no name.
Rule 2: a read passes metrics and guard like a call, within the deadline of a call, and is recorded like one; it is
never confirmed.
Rule 3: a URI that no list has can be read where an allowlist lets it: a client reads what it was given as a link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errands import Errand
from zorivest_rpc.gateway.errors import ProtocolBroken, Quarantined, ToolingError
from zorivest_rpc.gateway.extras import Extras, Part, Piece, examine_extras, names_upstream, prompt_arguments
from zorivest_rpc.gateway.links import mark, pass_block
from zorivest_rpc.gateway.loops import Passage
from zorivest_rpc.gateway.member import Member
from zorivest_rpc.gateway.naming import describe
from zorivest_rpc.gateway.questions import Questions
from zorivest_rpc.gateway.relay import Relay
from zorivest_rpc.gateway.scan import clean
from zorivest_rpc.gateway.telemetry import CallRecord, Telemetry
from zorivest_rpc.gateway.upstream import Call as Forwarded
from zorivest_rpc.mcp.call import EVERYONE, Call, Outcome, Scope
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, Completion, Prompt, Resource, Template
from zorivest_rpc.mcp.protocol.content import Block, text
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, Id, Json, dumps
from zorivest_rpc.mcp.protocol.session import Session

__all__ = ["TEMPLATES", "Address", "Library", "Pass"]

TEMPLATES: Final = "templates"

Address: TypeAlias = Callable[[str, str], str]
"""(published URI, client of ours): the URI with the client in it."""

Pass: TypeAlias = Callable[[str, Call, Callable[[Call], Awaitable[Outcome]]], Awaitable[Outcome]]
"""(name in the metrics, call, work): the work behind metrics and guard, recorded under that name."""
_COMPLETION_LIMIT: Final = 64 * 1024
_LABELS: Final = {"prompts/get": "prompts", "resources/read": "resources", "completion/complete": "completions"}


def _leave(uri: str, client: str) -> str:
    return uri


async def _pass_plainly(label: str, call: Call, work: Callable[[Call], Awaitable[Outcome]]) -> Outcome:
    return await work(call)


class _Read(msgspec.Struct):
    contents: list[dict[str, Json]]


class _Message(msgspec.Struct):
    role: str
    content: dict[str, Json]


class _Got(msgspec.Struct):
    messages: list[_Message]


class _Values(msgspec.Struct, rename="camel"):
    values: list[str] = []
    total: int | None = None
    has_more: bool | None = None


class _Completed(msgspec.Struct):
    completion: _Values


_read_contents: Final = msgspec.json.Decoder(_Read).decode
_read_messages: Final = msgspec.json.Decoder(_Got).decode
_read_completion: Final = msgspec.json.Decoder(_Completed).decode


class _Wanted(NamedTuple):
    """What is read from a server. `name` is the prompt's or the URI there and `shown` ours, `read` decodes the answer,
    and `keep` makes an outcome of it."""

    server: Server
    method: str
    params: dict[str, Json]
    name: str
    shown: str
    read: Callable[[msgspec.Raw], Any]
    keep: Callable[[Any], Outcome]


class _Shelved(NamedTuple):
    """A snapshot; `by_upstream` finds a resource or template by its server and its URI there."""

    prompts: Mapping[str, Prompt] = {}
    resources: Mapping[str, Resource] = {}
    templates: Mapping[str, Template] = {}
    pieces: Mapping[tuple[Part, str], Piece] = {}  # by the published name or URI
    by_upstream: Mapping[tuple[str, str], Piece] = {}
    digests: Mapping[str, Mapping[str, bytes]] = {}  # by list, of each toolset in it


class Library:
    """`behind` runs a read behind metrics and guard; it is given once there is a pipeline."""

    def __init__(
        self,
        profile: Profile,
        members: Mapping[str, Member],
        passage: Passage,
        questions: Questions,
        telemetry: Telemetry,
        our_prompts: Collection[str] = (),
        *,
        address: Address = _leave,
        reserved: Collection[str] = (),
        behind: Pass = _pass_plainly,
    ) -> None:
        """`address` names the client of a call in a URI that it is given; `reserved` are arguments that we add to
        prompts ourselves."""
        self._profile = profile
        self._address = address
        self._reserved = reserved
        self._questions = questions
        self._telemetry = telemetry
        self._passage = passage
        self._members = members
        self._our_prompts = our_prompts
        self._shelved = _Shelved()
        self.behind: Pass = behind

    def update(self, profile: Profile, offers: Mapping[str, Extras], tool_owners: Mapping[str, str]) -> list[str]:
        """Take what the servers offer now; the lists that are other ones than before."""
        before, self._profile = self._shelved, profile
        self.pieces = examine_extras(self._profile, offers, self._our_prompts, tool_owners, self._reserved)
        self._shelved = self._shelve()
        # the order counts: a list in another order is another one
        changed = [kind for kind, found in self._shelved.digests.items() if [*found.items()] != [*_of(before, kind)]]
        return list(dict.fromkeys(RESOURCES if kind == TEMPLATES else kind for kind in changed))

    pieces: tuple[Piece, ...] = ()

    # --- what the methods ask a shelf

    def prompts(self, servers: Callable[[str], bool]) -> Sequence[Prompt]:
        """`servers` says of a toolset whether the session may have what belongs to it."""
        return [each for name, each in self._shelved.prompts.items() if servers(self._toolset("prompt", name))]

    def resources(self, servers: Callable[[str], bool]) -> Sequence[Resource]:
        return [each for uri, each in self._shelved.resources.items() if servers(self._toolset("resource", uri))]

    def templates(self, servers: Callable[[str], bool]) -> Sequence[Template]:
        return [each for uri, each in self._shelved.templates.items() if servers(self._toolset("template", uri))]

    def find_prompt(self, name: str, servers: Callable[[str], bool]) -> Prompt | None:
        """ProtocolError that names the server's state where the prompt may be one of a server that is away."""
        found = self._shelved.prompts.get(name)
        if found is not None:
            return found if servers(self._toolset("prompt", name)) else None
        members = [member for member in self._members.values() if servers(member.server.toolset)]
        for piece in self.pieces:
            if (piece.part, piece.published, piece.state) == ("prompt", name, "held"):
                raise ProtocolError(INVALID_PARAMS, Quarantined(piece.server, name).text)
        for member in members:
            if name.startswith(f"{member.server.name}__") and (why := self._away(member)):
                raise ProtocolError(INVALID_PARAMS, f'unknown prompt "{name[:128]}": {why}')
        return None

    def find_resource(
        self, uri: str, servers: Callable[[str], bool]
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        server, theirs = self.locate(uri)
        if server is None or not servers(server.toolset):
            return None
        piece = self._shelved.by_upstream.get((server.name, theirs))
        if piece is not None and piece.state == "held":
            raise ProtocolError(RESOURCE_NOT_FOUND, Quarantined(server.name, uri).text, {"uri": uri})
        member = self._members.get(server.name)
        if member is not None and (why := self._away(member)):
            raise ProtocolError(RESOURCE_NOT_FOUND, f'no resource "{uri[:256]}": {why}', {"uri": uri})
        if piece is None and not self._may_read(server, theirs):
            return None
        found = self._shelved.resources.get(uri)
        return found or Resource(uri, theirs, partial(self._read, server, theirs)), {}

    def locate(self, uri: str) -> tuple[Server | None, str]:
        """The server of a published URI, and the URI there."""
        if uri.startswith("upstream:"):
            name, _, theirs = uri.removeprefix("upstream:").partition(":")
            member = self._members.get(name)
            return (member.server, theirs) if member is not None and theirs else (None, "")
        piece = self._shelved.pieces.get(("resource", uri))
        if piece is None:
            piece = next((self._piece(each) for each in self._templates_of(bare=True) if each.match(uri)), None)
        return (None, "") if piece is None else (self._members[piece.server].server, uri)

    def publish(self, server: Server, client: str, uri: str) -> str:
        """The URI under which our clients can read what this server calls `uri`, in a call for this client of ours."""
        piece = self._shelved.by_upstream.get((server.name, uri))
        if piece is not None and piece.state == "published" and piece.published is not None:
            return self._address(piece.published, client)
        return self._address(f"upstream:{server.name}:{uri}", client)

    def toolset_of(self, kind: str, name: str) -> str | None:
        """The toolset of a prompt, or of a resource or template by its text; None where it is none of these."""
        parts: tuple[Part, ...] = ("prompt",) if kind == "prompt" else ("template", "resource")
        piece = next((each for part in parts if (each := self._shelved.pieces.get((part, name)))), None)
        return None if piece is None else f"mcp-{piece.server}"

    def digests(self, kind: str) -> Mapping[str, bytes]:
        """Of what each toolset has in this list."""
        return self._shelved.digests.get(kind, {})

    async def complete(
        self,
        session: Session,
        kind: str,
        name: str,
        argument: str,
        value: str,
        others: dict[str, str],
        scope: Scope = EVERYONE,
    ) -> Completion | None:
        """None where it is none of ours. A server that is away, slow or has no completions offers nothing."""
        piece = self._shelved.pieces.get(("prompt" if kind == "prompt" else "template", name))
        if piece is None:
            return None
        member = self._members[piece.server]
        if not member.offered.extras.can_complete:
            return Completion([])
        ref = {"type": "ref/prompt", "name": piece.upstream}
        if kind != "prompt":
            ref = {"type": "ref/resource", "uri": piece.upstream}
        names = names_upstream(member.server, piece.definition)
        params: dict[str, Json] = {"ref": ref, "argument": {"name": names.get(argument, argument), "value": value}}
        if others:
            params["context"] = {"arguments": {names.get(other, other): each for other, each in others.items()}}
        found: list[Completion] = []

        def keep(read: _Completed) -> Outcome:
            values = read.completion
            found.append(Completion(values.values, values.total, values.has_more))
            return Outcome([])

        asked: dict[str, Json] = {"ref": {**ref, "name": name}, "argument": params["argument"]}
        wanted = _Wanted(member.server, "completion/complete", params, piece.upstream, name, _read_completion, keep)
        try:
            await self._pass(wanted, Call(name, asked, session, _Silent(), scope=scope))
        except ToolError:
            return Completion([])
        return found[0]

    # --- reading

    async def _read(self, server: Server, theirs: str, call: Call) -> list[Block]:
        found: list[Block] = []

        def keep(read: _Read) -> Outcome:
            for entry in read.contents:
                uri = entry.get("uri")
                shown = self.publish(server, call.scope.name, uri) if isinstance(uri, str) else call.name
                found.append(mark({**entry, "uri": shown}))
            return Outcome([text(str(each.get("text") or each.get("blob") or "")) for each in found])

        wanted = _Wanted(server, "resources/read", {"uri": theirs}, theirs, call.name, _read_contents, keep)
        await self._run(wanted, call, {"uri": call.name}, RESOURCE_NOT_FOUND)
        return found

    async def _get(self, server: Server, piece: Piece, call: Call) -> list[dict[str, Json]]:
        found: list[dict[str, Json]] = []
        names = names_upstream(server, piece.definition)
        given = {names.get(name, name): str(each) for name, each in call.arguments.items()}
        params = {"name": piece.upstream, "arguments": given}
        publish = partial(self.publish, server, call.scope.name)

        def keep(read: _Got) -> Outcome:
            for message in read.messages:
                if message.role not in ("user", "assistant"):
                    raise ProtocolBroken(server.name, f"a prompt has a message of the role {message.role[:40]!r}")
                content = mark(pass_block(message.content, publish))
                found.append({"role": message.role, "content": content})
            return Outcome([message["content"] for message in found])

        wanted = _Wanted(server, "prompts/get", params, piece.upstream, call.name, _read_messages, keep)
        await self._run(wanted, call, {**params, "name": call.name}, INVALID_PARAMS)
        return found

    async def _run(self, wanted: _Wanted, call: Call, asked: dict[str, Json], code: int) -> None:
        """What an upstream refuses is a refusal of the URI or the name; what breaks on the way is a fault of ours."""
        try:
            await self._pass(wanted, call.dispatch(call.name, asked))
        except ToolingError as error:
            refused = error.code == "upstream_error"
            raise ProtocolError(code if refused else INTERNAL_ERROR, error.text, {"code": error.code}) from None

    async def _pass(self, wanted: _Wanted, call: Call) -> None:
        """The arguments of `call` are what our client asked for, in its own words."""
        await self.behind(f"{wanted.server.name}/{_LABELS[wanted.method]}", call, partial(self._forward, wanted))

    async def _forward(self, wanted: _Wanted, call: Call) -> Outcome:
        errand = self._questions.errand_of(call)  # what asked something is one request, in however many rounds
        if not isinstance(errand, Errand):
            errand = Errand(self._record(wanted, call))
        member = self._members[wanted.server.name]
        send = partial(member.call, repeatable=True)  # it is a read, whatever the server is trusted with
        request = self._request(wanted, call)
        with errand:
            if wanted.method == "completion/complete":
                result, attempts = await send(request)
            else:
                put_through = self._questions.put_through
                result, attempts = await put_through(call, request, send, errand, modern=member.is_modern)
            errand.attempts += attempts
            outcome = wanted.keep(self._decode(wanted, result.raw))
        errand.succeed(outcome, len(memoryview(result.raw)))
        return outcome

    def _record(self, wanted: _Wanted, call: Call) -> CallRecord:
        if isinstance(call.record, CallRecord):
            return call.record
        return self._telemetry.call(
            tool=f"{wanted.server.name}/{_LABELS[wanted.method]}",
            provenance="upstream",
            server=wanted.server.name,
            principal=call.session.principal or None,
            tenant=call.scope.name or None,
            arguments=call.arguments,
        )

    def _request(self, wanted: _Wanted, call: Call) -> Forwarded:
        server = wanted.server
        relay = Relay(call, server.name, self._telemetry.redactor)
        return Forwarded(
            wanted.method,
            dumps(wanted.params),
            name=wanted.name,
            shown=wanted.shown,
            seconds=float(server.call_timeout_secs or self._profile.tool_timeout_secs),
            max_bytes=_COMPLETION_LIMIT if wanted.method == "completion/complete" else server.max_result_bytes,
            log_level=call.session.log_level,
            meta=self._passage.onward(call.wire.meta),
            on_progress=relay.progress if call.wire.progress_token is not None else None,
            on_log=relay.log,
            server=server.name,
        )

    def _decode(self, wanted: _Wanted, raw: msgspec.Raw) -> Any:
        try:
            return wanted.read(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as wrong:
            problem = f"an answer does not fit the protocol: {wrong}"[:200]
            raise ProtocolBroken(wanted.server.name, problem) from None

    # --- the snapshot

    def _shelve(self) -> _Shelved:
        prompts: dict[str, Prompt] = {}
        resources: dict[str, Resource] = {}
        templates: dict[str, Template] = {}
        pieces: dict[tuple[Part, str], Piece] = {}
        by_upstream: dict[tuple[str, str], Piece] = {}
        for piece in self.pieces:
            server = self._profile.server(piece.server)
            if server is None or piece.published is None or piece.state == "dropped":
                continue
            if piece.part != "prompt":
                by_upstream[piece.server, piece.upstream] = piece
            if piece.state == "held":
                continue
            pieces[piece.part, piece.published] = piece
            if piece.part == "prompt":
                prompts[piece.published] = self._prompt(server, piece)
            elif piece.part == "resource":
                name, read = _name_of(piece), partial(self._read, server, piece.upstream)
                resources[piece.published] = Resource(piece.published, name, read, _about(server, piece))
            else:
                templates[piece.published] = Template(
                    piece.published, _name_of(piece), self._read_template, _about(server, piece)
                )
        listed = ((pieces["prompt", name].server, prompt.wire()) for name, prompt in prompts.items())
        single = ((pieces["resource", uri].server, resource.wire()) for uri, resource in resources.items())
        families = ((pieces["template", uri].server, template.wire()) for uri, template in templates.items())
        digests = {PROMPTS: _digest(listed), RESOURCES: _digest(single), TEMPLATES: _digest(families)}
        return _Shelved(prompts, resources, templates, pieces, by_upstream, digests)

    async def _read_template(self, call: Call) -> list[Block]:
        server, theirs = self.locate(call.name)
        if server is None:
            raise KeyError(call.name)
        return await self._read(server, theirs, call)

    def _prompt(self, server: Server, piece: Piece) -> Prompt:
        definition = piece.definition
        told, title = definition.get("description"), definition.get("title")
        assert piece.published is not None
        return Prompt(
            piece.published,
            describe(server, clean(told) if isinstance(told, str) else piece.upstream),
            partial(self._get, server, piece),
            tuple(
                (each["name"], clean(str(each.get("description") or "")), each.get("required") is True)
                for each in prompt_arguments(server, definition)
            ),
            title=clean(title) if isinstance(title, str) and title.strip() else None,
        )

    def _toolset(self, part: Part, published: str) -> str:
        return f"mcp-{self._shelved.pieces[part, published].server}"

    def _piece(self, template: Template) -> Piece:
        return self._shelved.pieces["template", template.uri_template]

    def _templates_of(self, *, bare: bool) -> list[Template]:
        return [each for uri, each in self._shelved.templates.items() if uri.startswith("upstream:") is not bare]

    def _may_read(self, server: Server, theirs: str) -> bool:
        """Of what no list has: an allowlist has to let it through. Where only pinned things are published, or a held
        template would make it, it has to be one of a template that is published."""
        if not server.allows("resource", theirs) or not self._members[server.name].offered.extras.has_resources:
            return False
        templates = [piece for piece in self.pieces if (piece.part, piece.server) == ("template", server.name)]
        fitting = [piece for piece in templates if Template(piece.upstream, "", self._read_template).match(theirs)]
        if any(piece.state == "published" for piece in fitting):
            return True
        return not fitting and self._profile.pin != "strict"

    def _away(self, member: Member) -> str | None:
        """Why nothing of this server can be had now."""
        offered = member.offered
        if offered.status in ("ready", "degraded", "quarantined"):
            return None
        why = f": {offered.error}" if offered.error else "."
        return f'MCP server "{member.server.name}" is {offered.status}{why}'


def _name_of(piece: Piece) -> str:
    name = piece.definition.get("name")
    return clean(name) if isinstance(name, str) and name.strip() else piece.upstream


def _about(server: Server, piece: Piece) -> dict[str, Json]:
    definition = piece.definition
    told, title, kind, size = (definition.get(key) for key in ("description", "title", "mimeType", "size"))
    shown: dict[str, Json] = {}
    if isinstance(title, str) and title.strip():
        shown["title"] = clean(title)
    shown["description"] = describe(server, clean(told) if isinstance(told, str) else _name_of(piece))
    if isinstance(kind, str):
        shown["mimeType"] = clean(kind)
    if type(size) is int and piece.part == "resource":
        shown["size"] = size
    return shown


def _of(shelved: _Shelved, kind: str) -> Iterable[tuple[str, bytes]]:
    return shelved.digests.get(kind, {}).items()


def _digest(listed: Iterable[tuple[str, dict[str, Json]]]) -> dict[str, bytes]:
    """By toolset, of what each server lists."""
    found: dict[str, Any] = {}
    for server, wire in listed:
        found.setdefault(f"mcp-{server}", blake2b(digest_size=16)).update(dumps(wire) + b"\n")
    return {toolset: whole.digest() for toolset, whole in found.items()}


class _Silent:
    """The wire of a completion: nothing is told while it is looked for."""

    progress_token: Id | None = None
    meta: Json = UNSET
    carries_questions = False
    cancelled = False

    def notify(self, method: str, params: bytes) -> None:
        return

    def hang_up(self) -> None:
        return
