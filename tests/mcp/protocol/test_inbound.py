"""The order of refusals: of two things that are wrong with a message, the one whose row stands higher is told."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from itertools import combinations
from typing import Any

import msgspec
import pytest
from multidict import CIMultiDict

from tests.connect import PREFIX, meta
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.inbound import (
    ORDER,
    Arrival,
    Pipe,
    Served,
    Way,
    climb,
    has_legacy_header,
    read_item,
    read_post,
    select_rows,
)
from zorivest_rpc.mcp.protocol.jsonrpc import Batch, Message, decode
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, Era
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import Meta

METHODS = frozenset({"initialize", "ping", "tools/list", "tools/call", "server/discover"})
SERVED = Served(METHODS, lambda session, name: {"Text": ("text",)} if name == "echo" else {})
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}


class Posted:
    """A modern POST of `tools/call` that is right in everything, until a flaw is put into it."""

    def __init__(self) -> None:
        self.method = "tools/call"
        self.meta: Any = meta()
        self.name: Any = "echo"
        self.headers = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "echo",
            "Mcp-Param-Text": "a",
        }

    def arrival(self) -> Arrival:
        params = {"name": self.name, "arguments": {"text": "a"}, "_meta": self.meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": self.method, "params": params}).encode()
        message = decode(body)
        assert isinstance(message, Message)
        arrival = read_post(SERVED, message, self.headers.get("MCP-Protocol-Version"))
        arrival.headers = CIMultiDict(self.headers)
        return arrival


def _no_capabilities(posted: Posted) -> None:
    del posted.meta[PREFIX + "clientCapabilities"]


def _other_method_header(posted: Posted) -> None:
    posted.headers["Mcp-Method"] = "tools/list"


def _unserved_version(posted: Posted) -> None:
    posted.meta[PREFIX + "protocolVersion"] = posted.headers["MCP-Protocol-Version"] = "2099-01-01"


def _unknown_method(posted: Posted) -> None:
    posted.method = "no/such"
    if posted.headers["Mcp-Method"] == "tools/call":
        posted.headers["Mcp-Method"] = "no/such"


def _name_of_wrong_type(posted: Posted) -> None:
    posted.name = 5


def _other_argument_header(posted: Posted) -> None:
    posted.headers["Mcp-Param-Text"] = "b"


FLAWS: list[tuple[Callable[[Posted], None], int, int]] = [  # in the order of their rows, with code and status
    (_no_capabilities, -32602, 400),
    (_other_method_header, -32020, 400),
    (_unserved_version, -32022, 400),
    (_unknown_method, -32601, 404),
    (_name_of_wrong_type, -32602, 200),
    (_other_argument_header, -32020, 400),
]


def refusal(arrival: Arrival, way: Way) -> tuple[int, int, Any]:
    with pytest.raises(ProtocolError) as refused:
        climb(arrival, select_rows(way))
    return refused.value.code, refused.value.status, refused.value.id


def test_a_post_without_a_flaw_has_a_session() -> None:
    arrival = Posted().arrival()
    climb(arrival, select_rows(Way.POST_MODERN))
    assert arrival.session is not None
    assert (arrival.session.revision.name, arrival.session.phase) == ("2026-07-28", Phase.READY)
    assert arrival.session.headers is arrival.headers


@pytest.mark.parametrize(("flaw", "code", "status"), FLAWS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_each_flaw_of_a_post_has_its_code_and_status(flaw: Callable[[Posted], None], code: int, status: int) -> None:
    posted = Posted()
    flaw(posted)
    assert refusal(posted.arrival(), Way.POST_MODERN) == (code, status, 7)


@pytest.mark.parametrize(("first", "second"), list(combinations(range(len(FLAWS)), 2)))
def test_of_two_flaws_of_a_post_the_higher_row_is_told(first: int, second: int) -> None:
    posted = Posted()
    FLAWS[second][0](posted)
    FLAWS[first][0](posted)
    assert refusal(posted.arrival(), Way.POST_MODERN) == (*FLAWS[first][1:], 7)


LEGACY = Session(BY_NAME["2025-11-25"], Phase.READY)
BATCHING = Session(BY_NAME["2025-03-26"], Phase.READY)
RESPONSE = decode(b'{"jsonrpc":"2.0","id":1,"result":{}}')
NOTE = decode(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')
HELLO = decode(b'{"jsonrpc":"2.0","id":3,"method":"initialize"}')
HELLO_NOTE = decode(b'{"jsonrpc":"2.0","method":"initialize"}')
CLAIM = msgspec.json.decode(json.dumps(meta()), type=Meta)


def opening(params: Any = INITIALIZE) -> dict[str, Any]:
    """The fields of an `initialize`, as they are read from a POST."""
    message = decode(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}).encode())
    assert isinstance(message, Message)
    arrival = read_post(SERVED, message)
    return {"served": SERVED, "method": "initialize", "id": 7, "params": arrival.params, "problem": arrival.problem}


# Way, what arrives, code, status, id, words: one row at least for each refusal, and the neighbour that is let through.
REFUSED: list[tuple[Way, dict[str, Any], int, int, Any, str]] = [
    (Way.MODERN_BATCH, {}, -32600, 400, None, "no batches"),
    (Way.MODERN_NOTE, {"message": RESPONSE, "version": "2026-07-28"}, -32600, 400, None, "send no responses"),
    (Way.MODERN_NOTE, {"message": RESPONSE, "version": "2099-01-01"}, -32600, 400, None, "send no responses"),
    (Way.MODERN_NOTE, {"message": NOTE, "version": "2099-01-01"}, -32022, 400, None, "'2099-01-01' is not served"),
    (Way.IN_SESSION, {"version": "2099-01-01"}, -32600, 400, None, "missing Mcp-Session-Id"),
    (Way.IN_SESSION, {"session_id": "s", "version": "2099-01-01"}, -32600, 400, None, "unsupported MCP-Protocol-Ver"),
    (Way.IN_SESSION, {"session_id": "s"}, -32600, 404, None, "no such session"),
    (Way.IN_SESSION, {"session_id": "s", "version": "2025-11-25"}, -32600, 404, None, "no such session"),
    (Way.PIPE_BATCH, {}, -32600, 400, None, "in revision 2025-03-26 alone"),
    (Way.POST_BATCH, {"session": LEGACY, "size": 1}, -32600, 400, None, "in revision 2025-03-26 alone"),
    (Way.PIPE_BATCH, {"session": BATCHING, "size": 1001}, -32600, 400, None, "at most 1000"),
    (Way.POST_BATCH, {"session": BATCHING, "size": 1001}, -32600, 400, None, "at most 1000"),
    (Way.BATCH_ITEM, {"message": Batch([b"1"])}, -32600, 0, None, "not batches"),
    (Way.BATCH_ITEM, {"message": HELLO}, -32600, 0, 3, "does not go into a batch"),
    (Way.BATCH_ITEM, {"message": HELLO_NOTE}, -32600, 0, None, "does not go into a batch"),
    (Way.PIPE_OPENING, opening({}), -32602, 400, 7, "protocolVersion"),
    (Way.POST_OPENING, opening({}), -32602, 400, 7, "protocolVersion"),
    (Way.POST_OPENING, opening() | {"session": LEGACY}, -32600, 400, 7, "already answered"),
    (Way.POST_OPENING, opening({}) | {"session": LEGACY}, -32602, 400, 7, "protocolVersion"),
    (Way.PIPE_LEGACY, {"meta": CLAIM, "id": 7, "session": LEGACY}, -32600, 0, 7, "a request of another era"),
    (Way.PIPE_MODERN, {"meta": CLAIM, "id": 7, "carries_modern": False}, -32600, 0, 7, "transport is older"),
    (Way.PIPE_MODERN, opening(), -32022, 0, 7, "'2025-11-25' is not served"),
    (Way.PIPE_MODERN, {"method": "initialize", "id": 7}, -32022, 0, 7, "'' is not served"),
    (Way.PIPE_LEGACY, opening() | {"session": LEGACY}, -32600, 400, 7, "initialize"),
    (Way.POST_LEGACY, opening() | {"session": LEGACY}, -32600, 400, 7, "initialize"),
    (Way.PIPE_OPENING, {"method": "tools/list", "id": 7, "session": Session()}, -32600, 400, 7, "initialize"),
    *(
        (way, {"served": SERVED, "method": name, "id": 7, "session": LEGACY}, -32601, 200, 7, "in revision 2025-11-25")
        for way in (Way.PIPE_LEGACY, Way.POST_LEGACY)
        for name in ("no/such", "prompts/list", "server/discover")  # unknown, not served here, of another revision
    ),
]


@pytest.mark.parametrize(("way", "fields", "code", "status", "id", "words"), REFUSED)
def test_each_refusal_has_its_code_status_id_and_words(
    way: Way, fields: dict[str, Any], code: int, status: int, id: Any, words: str
) -> None:
    arrival = Arrival(**fields)
    with pytest.raises(ProtocolError) as refused:
        climb(arrival, select_rows(way))
    assert (refused.value.code, refused.value.status, refused.value.id) == (code, status, id)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("way", "fields"),
    [
        (Way.MODERN_NOTE, {"message": NOTE, "version": "2026-07-28"}),
        (Way.IN_SESSION, {"session_id": "s", "session": LEGACY}),
        (Way.POST_BATCH, {"session": BATCHING, "size": 1000}),
        (Way.BATCH_ITEM, {"message": RESPONSE}),
        (Way.POST_OPENING, opening()),
        (Way.POST_LEGACY, {"served": SERVED, "method": "tools/list", "id": 7, "session": LEGACY}),
    ],
)
def test_what_has_none_of_the_flaws_passes_every_row(way: Way, fields: dict[str, Any]) -> None:
    climb(Arrival(**fields), select_rows(way))


def test_a_name_is_compared_with_its_header_where_the_method_has_one() -> None:
    posted = Posted()
    posted.headers["Mcp-Name"] = "other"
    assert refusal(posted.arrival(), Way.POST_MODERN) == (-32020, 400, 7)
    del posted.headers["Mcp-Name"]
    assert refusal(posted.arrival(), Way.POST_MODERN) == (-32020, 400, 7)
    posted = Posted()
    posted.method = posted.headers["Mcp-Method"] = "tools/list"
    del posted.headers["Mcp-Name"]
    climb(posted.arrival(), select_rows(Way.POST_MODERN))


def test_every_row_names_its_clause_and_every_way_has_rows() -> None:
    assert all(row.clause for row in ORDER)
    assert all(select_rows(way) for way in Way)
    posts = [row for row in ORDER if any(way in row.ways for way in Way if way.name and way.name.startswith("POST"))]
    assert {row.status for row in posts} == {200, 400, 404}


def request(method: str, params: Any = None) -> tuple[str, Any, int]:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
    message = decode(json.dumps(body).encode())
    assert isinstance(message, Message)
    return method, message.params, 7


def judge(pipe: Pipe, method: str, params: Any = None) -> Any:
    """What a pipe makes of a request: the revision and the params it is run with, or the refusal."""
    try:
        session, read = pipe.admit(*request(method, params))
    except ProtocolError as error:
        return error.code, error.message
    return session.revision.name, session.phase, read


def legacy_pipe() -> Pipe:
    pipe = Pipe(SERVED, Session(BY_NAME["2025-11-25"], Phase.READY), True)
    assert judge(pipe, "ping")[0] == "2025-11-25"
    return pipe


def modern_pipe() -> Pipe:
    pipe = Pipe(SERVED, Session(), True)
    assert judge(pipe, "tools/list", {"_meta": meta()})[0] == "2026-07-28"
    return pipe


PARAMS: list[Any] = [
    None,
    {},
    [],
    {"name": "echo"},
    {"name": 5},
    INITIALIZE,
    {"_meta": {"progressToken": 1}, "name": "echo"},
    {"_meta": {"progressToken": []}, "name": "echo"},
    {"_meta": meta(), "name": "echo"},
    {"_meta": meta(), "name": 5},
    {"_meta": meta(version="2025-11-25"), "name": "echo"},
    {"_meta": meta(version=None), "name": "echo"},
    {"_meta": meta(capabilities=[]), "name": "echo"},
    {"_meta": {**meta(), PREFIX + "logLevel": "loud"}},
]
REQUESTED = (*sorted(METHODS), "prompts/list", "no/such", "tasks/get", "logging/setLevel")


@pytest.mark.parametrize("opened", [legacy_pipe, modern_pipe])
@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("method", REQUESTED)
def test_the_short_way_of_a_pipe_decides_as_the_rows_do(opened: Callable[[], Pipe], method: str, params: Any) -> None:
    short, long = opened(), opened()
    assert short._settled
    long._settled = frozenset()
    assert judge(short, method, params) == judge(long, method, params)
    assert (short.era, short.session.phase) == (long.era, long.session.phase)


def test_the_era_of_a_pipe_is_decided_before_its_method_is_looked_for() -> None:
    pipe = Pipe(SERVED, Session(), True)
    assert judge(pipe, "no/such", {"_meta": meta()})[0] == -32601
    assert pipe.era is Era.MODERN
    assert judge(pipe, "initialize", INITIALIZE)[0] == -32022


def test_a_refused_opening_and_a_probe_leave_the_era_open() -> None:
    pipe = Pipe(SERVED, Session(), True)
    assert judge(pipe, "tools/list")[0] == -32600
    assert judge(pipe, "server/discover", {"_meta": meta()})[0] == "2026-07-28"
    assert judge(pipe, "tools/list")[0] == -32600
    assert judge(pipe, "initialize", {})[0] == -32602
    assert pipe.era is None
    assert judge(pipe, "initialize", INITIALIZE)[1] is Phase.GREETED
    assert pipe.era is Era.LEGACY
    assert judge(pipe, "tools/list", {"_meta": meta()})[0] == -32600


def test_a_pipe_of_an_older_transport_takes_no_claim() -> None:
    pipe = Pipe(SERVED, Session(), False)
    assert judge(pipe, "tools/list", {"_meta": meta()})[0] == -32600
    assert pipe.era is None


@pytest.mark.parametrize("count", [1_000, 1_001])
def test_a_batch_is_bounded_in_its_own_revision(count: int) -> None:
    pipe = Pipe(SERVED, Session(BY_NAME["2025-03-26"], Phase.READY), True)
    judge(pipe, "ping")
    if count == 1_000:
        pipe.admit_batch(Batch([b"1"] * count))
        return
    with pytest.raises(ProtocolError, match="at most 1000"):
        pipe.admit_batch(Batch([b"1"] * count))


def test_an_array_and_initialize_are_no_items() -> None:
    assert read_item(b'{"jsonrpc":"2.0","id":1,"method":"ping"}').method == "ping"
    with pytest.raises(ProtocolError, match="not batches"):
        read_item(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]')
    with pytest.raises(ProtocolError) as refused:
        read_item(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}')
    assert (refused.value.code, refused.value.id) == (-32600, 1)


@pytest.mark.parametrize(
    ("version", "legacy"),
    [(None, True), *((name, not row.modern) for name, row in BY_NAME.items()), ("2099-01-01", False), ("", False)],
)
def test_only_a_revision_with_sessions_and_no_header_at_all_are_legacy(version: str | None, legacy: bool) -> None:
    assert has_legacy_header(version) is legacy


@pytest.mark.parametrize("claim", [True, False])
@pytest.mark.parametrize("version", [None, "2025-11-25", "2026-07-28", "2099-01-01"])
def test_a_post_is_modern_by_its_body_or_by_its_header(version: str | None, claim: bool) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"_meta": meta()} if claim else {}}
    message = decode(json.dumps(body).encode())
    assert isinstance(message, Message)
    modern = claim or version in ("2026-07-28", "2099-01-01")
    assert read_post(SERVED, message, version).is_modern is modern


def refuse_on_pipe() -> weakref.ref[ProtocolError]:
    with pytest.raises(ProtocolError) as refused:
        legacy_pipe().admit(*request("tools/call", {"name": 5}))
    return weakref.ref(refused.value)


def refuse_post() -> weakref.ref[ProtocolError]:
    posted = Posted()
    posted.name = 5
    with pytest.raises(ProtocolError) as refused:
        climb(posted.arrival(), select_rows(Way.POST_MODERN))
    return weakref.ref(refused.value)


@pytest.mark.parametrize("refuse", [refuse_on_pipe, refuse_post])
def test_nothing_of_a_refused_request_is_kept(refuse: Callable[[], weakref.ref[ProtocolError]]) -> None:
    """The refusal's traceback leads back to the message, with the HTTP request behind it: a cycle to be collected."""
    left = refuse()
    gc.collect()
    assert left() is None
