"""Where tenancy is switched on in a process that runs the product, and where its frames are translated.

Three seams. `Journal` is made with one client in place of the one journal: the same backend by the same credential.
`Connection` is what a pipe or memory hands frames to. Over HTTP, bodies are translated as they come in and whatever is
written as it goes out. Only servers of such a journal are touched: one that has clients of its own already, or that
offers something else, is as it was."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from tests.tenancy.translate import ID, Missing, Translator, dump, read, with_client

if TYPE_CHECKING:
    from aiohttp import web

    from zorivest_rpc.app import Journal
    from zorivest_rpc.config import Settings
    from zorivest_rpc.gateway.config import Profile
    from zorivest_rpc.mcp.server import Server
    from zorivest_rpc.mcp.transports.answers import Writer

__all__ = [
    "PROBLEMS",
    "change_journal",
    "keep_directory",
    "keep_files",
    "keep_page_key",
    "problems",
    "share_servers",
    "translate_http",
    "translate_pipe",
]

PROBLEMS: Final = "TESTS_WITH_TENANCY"  # the file that says what was missing, for all processes of a run
VARIABLE: Final = "CLIENTS_CONFIG"


class Switched(NamedTuple):
    """What is kept about a journal that was switched."""

    tasks: dict[str, tuple[str, Any]]  # the tool behind each task, and its arguments
    backend: str  # as the instructions of the one journal name it


_switched: WeakKeyDictionary[Any, Switched] = WeakKeyDictionary()  # journals, and the tasks of each


def _note_problem(words: str) -> None:
    with open(os.environ[PROBLEMS], "a") as file:
        file.write(words.replace("\n", " ") + "\n")


def problems() -> list[str]:
    """What was noted since it was last asked."""
    path = Path(os.environ[PROBLEMS])
    if not path.exists() or not path.stat().st_size:
        return []
    found = path.read_text().splitlines()
    path.write_text("")
    return found


# --- the journal


def change_journal(module: Any) -> None:
    """Every journal of one backend from now on has one client with that backend."""
    kind = module.Journal
    make = kind.__init__

    def __init__(self: Journal, settings: Settings, schemas: str | None = None) -> None:
        if settings.tenant_sources:
            make(self, settings, schemas)
            return
        if settings.command not in ("stdio", "serve"):  # a command for people, which is told by --tenant
            settings = settings._replace(client_id=ID)
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = json.dumps({ID: client_of(settings), **access_of(settings)})
        try:
            make(self, settings._replace(tenant_sources=(VARIABLE,)), schemas)
        finally:
            os.environ.pop(VARIABLE)
            if before is not None:
                os.environ[VARIABLE] = before
        _switched[self] = Switched({}, settings.api_url or "embedded")

    kind.__init__ = __init__


def client_of(settings: Settings) -> dict[str, Any]:
    """The client that stands for the one journal of these settings."""
    if settings.api_url:
        key = {"apiKey": settings.api_key} if settings.api_key else {"apiKeyEnv": "NO_KEY_WAS_GIVEN"}
        return {"apiBaseUrl": settings.api_url, **key}
    return {"embedded": True}


def access_of(settings: Settings) -> dict[str, Any]:
    """Who shows the key of the one journal's backend over HTTP shows the same one as an access key. A server in the
    process of its test has no door: there every client is granted to callers without a key."""
    if settings.command != "serve" or settings.no_auth or "pytest" in sys.modules:
        return {}
    file = Path(settings.data_dir, "api.key")
    if not settings.api_url and not file.exists():  # a server of one journal founds it as it starts
        from zorivest_rpc.embedded.locate import find_or_start

        find_or_start(Path(settings.data_dir))
    keys = [settings.api_key, file.read_text().strip() if file.exists() else None]
    rules = [
        {"keySha256": sha256(key.encode()).hexdigest(), "name": f"key-{number}", "clients": [ID]}
        for number, key in enumerate(dict.fromkeys(filter(None, keys)))
    ]
    return {"$access": rules} if rules else {}


def keep_directory(module: Any) -> None:
    """The embedded backend of the one client is that of the data directory, as without clients."""
    below = module.directory_of
    module.directory_of = lambda data_dir, id: Path(data_dir) if id == ID else below(data_dir, id)


def keep_files(module: Any) -> None:
    """Its imports and logs are there too."""
    kind = module.ServedTenants
    below = kind.directory
    kind.directory = lambda self, call: self.settings.data_dir if call.scope.name == ID else below(self, call)


def share_servers(module: Any) -> None:
    """Other MCP servers that are assigned to nobody serve the one client, as they serve the one journal."""
    assign = module.assign

    def shared(profile: Profile, ids: Collection[str], **options: bool) -> Any:
        if list(ids) == [ID]:
            servers = tuple(
                each if module.is_assigned(each) else replace(each, shared=True) for each in profile.mcp_servers
            )
            profile = replace(profile, mcp_servers=servers)
        return assign(profile, ids, **options)

    module.assign = shared


def keep_page_key(module: Any) -> None:
    """The key that the operator chose opens the pages of the one client, as it opens those of the one journal."""
    derive = module._derive
    module._derive = lambda key, tenant: key if tenant == ID else derive(key, tenant)


# --- pipes and memory


def _translator(server: Server) -> Translator | None:
    journal: Any = server.offer.tools
    switched = _switched.get(journal) if type(journal).__hash__ is not None else None
    if switched is None:
        return None

    def writes(name: str) -> bool | None:
        spec = journal.audience.specs.get(name)
        return None if spec is None else not spec.reads_only

    return Translator(writes, switched.tasks, switched.backend)


def _out(translator: Translator, frame: bytes) -> bytes:
    """A frame of the server as its client is to see it."""
    message = read(frame)
    try:
        taken = translator.take(message)
    except Missing as missing:
        _note_problem(str(missing))
        return frame
    except Exception as error:  # noqa: BLE001 - a shape that is not the protocol's: its test has to fail, not wait for an answer
        _note_problem(f"cannot be translated ({error!r}): {frame[:200]!r}")
        return frame
    return frame if taken is message else dump(taken)


def _in(translator: Translator, frame: bytes) -> bytes:
    message = read(frame)
    sent = translator.send(message)
    return frame if sent == message else dump(sent)


def translate_pipe(module: Any) -> None:
    """`memory` and `stdio`: the connection in between sees frames with the client in them, and both ends see none."""
    plain = module.Connection

    def connection(server: Server, write: Callable[[bytes], None], **options: Any) -> Any:
        translator = _translator(server)
        if translator is None:
            return plain(server, write, **options)
        write_event = options.pop("write_event", None) or write
        made = plain(
            server,
            lambda frame: write(_out(translator, frame)),
            write_event=lambda frame: write_event(_out(translator, frame)),
            **options,
        )
        receive = made.receive
        made.receive = lambda frame: receive(_in(translator, frame))
        return made

    module.Connection = connection


# --- HTTP


def translate_http(module: Any) -> None:
    """`http`: what comes in by POST, and whatever is written, as one answer or as events."""
    for name in ("Streamable", "SsePair"):
        setattr(module, name, _translated(getattr(module, name)))


def _translated(kind: Any) -> Callable[..., Any]:
    def made(server: Server, *rest: Any) -> Any:
        if _translator(server) is None:
            return kind(server, *rest)
        *before, writer, mind = rest
        edge = _Edge(server, writer)
        own = kind(server, *before, edge, mind)
        post = own.post
        own.post = lambda request, body, principal: post(*edge.receive(request, body), principal)
        return own

    return made


class _Edge:
    """Stands in for the writer; a conversation is a session, or one POST where there is none."""

    def __init__(self, server: Server, writer: Writer) -> None:
        self._server = server
        self._writer = writer
        self._sessions: dict[str, Translator] = {}
        self._key: Any = None

    def _of(self, request: web.BaseRequest) -> Translator:
        from aiohttp import web

        key = self._key = self._key or web.RequestKey("translator", object)
        if key not in request:
            made = _translator(self._server)
            assert made is not None
            id = request.headers.get("Mcp-Session-Id") or request.rel_url.query.get("session_id")
            request[key] = made if id is None else self._sessions.setdefault(id, made)
        found: Translator = request[key]
        return found

    def receive(self, request: web.BaseRequest, body: bytes) -> tuple[web.BaseRequest, bytes]:
        from multidict import CIMultiDict

        sent = _in(self._of(request), body)
        uri = with_client(request.headers.get("Mcp-Name", ""))
        if sent != body and isinstance(message := read(sent), dict) and message["params"].get("uri") == uri:
            translator = self._of(request)
            headers = CIMultiDict(request.headers)
            headers["Mcp-Name"] = uri  # whatever the case of the client's
            request = request.clone(headers=headers)
            request[self._key] = translator
        return request, sent

    def answer(self, request: web.BaseRequest, status: int, body: bytes = b"", *rest: Any, **more: Any) -> Any:
        return self._writer.answer(request, status, _out(self._of(request), body) if body else body, *rest, **more)

    async def open_events(self, request: web.BaseRequest, *rest: Any) -> Any:
        stream, translator = await self._writer.open_events(request, *rest), self._of(request)
        kind = type(stream)

        def write(self_: Any, data: bytes, edge: _Edge = self) -> None:
            if data.startswith(b"event: endpoint"):
                edge._sessions[data.partition(b"session_id=")[2].strip().decode()] = translator
            kind.write(self_, b"\n".join(map(line, data.split(b"\n"))))

        def line(text: bytes) -> bytes:
            mark, found, frame = text.partition(b"data: ")
            return b"data: " + _out(translator, frame) if found and not mark else text

        stream.__class__ = type("Translated", (kind,), {"__slots__": (), "write": write})
        return stream
