"""What travels between a page that carries the collector and this server: JSON objects, one per WebSocket message.

The key `frame` names what an object is. Times (`ts`) are milliseconds since 1970, as `Date.now()` gives them.

A page sends         with
  hello              v (1), page, tab, url, title, visible       first on each connection; nothing comes before it
  events             seq, dropped, items[]                       seq counts 1, 2, 3 … in one document
  state              url, title, visible, focused                when one of them changes
  result             q, ok, data | error {code, message}         answers a query, once
The server sends
  welcome            settings, limits, seq                       answers hello; seq is the newest batch that is stored
  ack                seq                                         this batch is stored, or was before
  query              q, type, params, timeout_ms
  cancel             q                                           its answer is wanted no more
  settings           log_level, ws_mode, network_bodies,         they changed; the whole of them
                     actions
  slow               ms                                          refused: keep the batch, and send nothing for so long

`page` is 16 hex digits made per document, `tab` 16 hex digits kept in session storage. A batch that was not
acknowledged is sent once more after the connection was lost, with the same `seq`; the server drops what it has.

Over `POST /devtools/sync` the body is `{"page", "tab", "frames": [ … ]}` (hello among the first ones) and the answer
is `{"frames": [ … ]}`. It is held up to 20 s while there is nothing to answer; frames that earn an ack, or a second
sync of the same page, end the wait at once. A page whose last sync ended 45 s ago counts as gone. 429 is `slow`; 410
means that the page is not known (the server was restarted): send hello again. `POST /devtools/beacon` takes the same
body and answers 204. Both need no content type.

Items of `events` have the key `kind`; what may be left out has a default below:

kind      is                                        stored as
log       a console call or uncaught error          Log
request   one fetch or XMLHttpRequest, ended        Request (`ts` is its start; `status` 0: it failed or was aborted)
ws        open, close, error or message of a        Socket  (`message` only with ws_mode "messages")
          WebSocket of the page
ws_rate   messages since the last one of these,     counts of the connection; at most one a second and connection,
          per connection                            in every ws_mode but "off"
action    what the user did                         Action
perf      the document's metrics so far             Performance; a later one of the same document replaces it

Results of queries, as the key `data`:

type   params                             data
dom    selector, include_styles,          url, title, match_count, returned_count, matches[{tag, text ≤500, visible,
       properties[], include_children,    attributes{}, box{x, y, width, height}, styles?{}, children?[…]}]
       max_depth, limit
page   –                                  url, title, viewport{width, height}, scroll{x, y}, document_height,
                                          headings[{level, text}], links, images, interactive (counts),
                                          forms[{id, action, fields[{name, type, label, required}]}]
a11y   scope (a selector, or absent),     url, engine ("axe-core" | "builtin"), engine_version, partial, violations[],
       tags[], include_passes             incomplete[], passes[], each in axe-core's own shape: {id, impact,
                                          description, help, helpUrl, tags[], nodes[{target[], html ≤200,
                                          failureSummary}] ≤10, node_count}
An `error` has the code `invalid_selector` or `failed`. The page gives up on an a11y query after `timeout_ms` and sends
what it has with `partial: true`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = [
    "ID",
    "SUBPROTOCOL",
    "VERSION",
    "Ack",
    "Action",
    "Cancel",
    "Down",
    "Events",
    "Hello",
    "Item",
    "Level",
    "Limits",
    "Log",
    "PageState",
    "Performance",
    "Post",
    "Query",
    "QueryType",
    "Reply",
    "Request",
    "Resource",
    "Result",
    "ResultError",
    "Role",
    "Selectors",
    "Settings",
    "SettingsFrame",
    "Slow",
    "Socket",
    "SocketRate",
    "Up",
    "Welcome",
    "WsMode",
]

VERSION: Final = 1
SUBPROTOCOL: Final = "zorivest.devtools.v1"

ID: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")]
Level: TypeAlias = Literal["error", "warn", "info", "debug"]
WsMode: TypeAlias = Literal["off", "lifecycle", "messages"]
QueryType: TypeAlias = Literal["dom", "page", "a11y"]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Headers: TypeAlias = dict[str, str]

# --- settings


class Settings(msgspec.Struct, frozen=True):
    """What a page collects: console calls of `log_level` and worse; errors always."""

    log_level: Level = "debug"
    ws_mode: WsMode = "lifecycle"
    network_bodies: bool = True
    actions: bool = True


class Limits(msgspec.Struct, frozen=True):
    """What the server takes: items and bytes of a batch, and how much of each text it keeps (bytes of UTF-8)."""

    batch_items: int = 500
    batch_bytes: int = 1 << 20
    message: int = 10 << 10  # a console call's text, and a stack
    depth: int = 10  # of an object that is logged
    request_body: int = 8 << 10
    response_body: int = 16 << 10
    ws_message: int = 4 << 10
    value: int = 100  # characters of what was typed


# --- items of `events`


class Log(msgspec.Struct, frozen=True, tag_field="kind", tag="log", omit_defaults=True):
    """`source`: "console"; or where an uncaught error comes from, as `url:line:column`; or "rejection"."""

    ts: float
    level: Level
    message: str
    source: str = "console"
    stack: str | None = None
    count: Annotated[int, Meta(ge=1, le=2**31)] = 1  # how often in a row: equal ones in one batch are one item


class Request(msgspec.Struct, frozen=True, tag_field="kind", tag="request", omit_defaults=True):
    """Bodies are texts, cut by the page at its limits; a binary body is left out and not marked as cut.

    Header names are in lower case. Sizes are bytes as transferred, left out where unknown.
    """

    ts: float
    method: str
    url: str  # absolute
    status: Annotated[int, Meta(ge=0, le=999)]
    duration_ms: float
    request_body: str | None = None
    response_body: str | None = None
    request_truncated: bool = False
    response_truncated: bool = False
    content_type: str = ""  # of the response
    request_content_type: str = ""
    request_headers: Headers = {}
    response_headers: Headers = {}
    request_size: Count | None = None
    response_size: Count | None = None
    wait_ms: float | None = None  # until the first byte of the answer
    error: str | None = None  # why there is no answer


class Socket(msgspec.Struct, frozen=True, tag_field="kind", tag="ws", omit_defaults=True):
    """`data` is a message's text (binary: left out); `size` its bytes before it was cut."""

    ts: float
    event: Literal["open", "close", "error", "message"]
    connection_id: Annotated[str, Meta(min_length=1, max_length=32)]  # unique in its document
    url: str
    direction: Literal["incoming", "outgoing"] | None = None
    data: str | None = None
    size: Count | None = None
    code: int | None = None  # of close
    reason: str | None = None


class SocketRate(msgspec.Struct, frozen=True, tag_field="kind", tag="ws_rate", omit_defaults=True):
    """What one connection carried since the last of these."""

    ts: float
    connection_id: Annotated[str, Meta(min_length=1, max_length=32)]
    incoming: Count = 0
    outgoing: Count = 0
    incoming_bytes: Count = 0
    outgoing_bytes: Count = 0


class Role(msgspec.Struct, frozen=True):
    """A computed role and accessible name, as Playwright's getByRole takes them."""

    role: str
    name: str = ""


class Selectors(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ways to find an element again; each only where it names this one element of the document, else left out."""

    test_id: str | None = None  # data-testid
    role: Role | None = None
    label: str | None = None  # of a form field
    text: str | None = None  # visible text, at most 100 characters
    id: str | None = None
    css: str | None = None


class Action(msgspec.Struct, frozen=True, tag_field="kind", tag="action", omit_defaults=True):
    """One thing the user did.

    type       carries
    click      –
    input      value: what the field holds; typing in one field within a second is one item
    change     value: of a select its value; of a checkbox or radio "true" or "false"
    key        key: Enter, Escape, Tab, ArrowUp …, Backspace, Delete
    submit     selectors of the form
    scroll     value: "x,y" after it
    navigate   url: from; to_url: to. Within one document (history, fragment); a new document says hello
    A secret field's value is "[redacted]", its length included.
    """

    ts: float
    type: Literal["click", "input", "change", "key", "submit", "scroll", "navigate"]
    url: str
    selectors: Selectors = Selectors()
    value: str | None = None
    key: str | None = None
    to_url: str | None = None
    input_type: str | None = None  # "text", "checkbox", "select-one" …; for generated scripts alone


class Resource(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the slowest loads of a document, as the Resource Timing interface tells it."""

    url: str
    initiator: str = ""
    duration_ms: float = 0.0
    bytes: Count = 0


class Performance(msgspec.Struct, frozen=True, tag_field="kind", tag="perf", omit_defaults=True):
    """The document's metrics so far, in milliseconds (`cls` has no unit); what is not known yet is left out.

    Sent once the load event is 2 s past, and again when the page is hidden, if a value changed.
    """

    ts: float
    url: str
    ttfb: float | None = None
    fcp: float | None = None
    lcp: float | None = None
    cls: float | None = None
    inp: float | None = None
    dom_content_loaded: float | None = None
    load: float | None = None
    requests: Count = 0
    bytes: Count = 0  # transferred, the document included
    long_tasks: Count = 0
    blocking_ms: float = 0.0  # of each long task, what is above 50 ms
    slowest: Annotated[list[Resource], Meta(max_length=10)] = []


Item: TypeAlias = Log | Request | Socket | SocketRate | Action | Performance

# --- frames of a page


class Hello(msgspec.Struct, frozen=True, tag_field="frame", tag="hello"):
    v: int
    page: ID
    tab: ID
    url: str
    title: str = ""
    visible: bool = False


class Events(msgspec.Struct, frozen=True, tag_field="frame", tag="events"):
    seq: Count
    items: list[Item]
    dropped: Count = 0  # items that the page could not keep since its last batch


class LooseEvents(msgspec.Struct, frozen=True, tag_field="frame", tag="events"):
    """A batch of which an item is wrong: each is read by itself, so that one does not cost the others."""

    seq: Count
    items: list[msgspec.Raw]
    dropped: Count = 0


class PageState(msgspec.Struct, frozen=True, tag_field="frame", tag="state"):
    url: str
    title: str = ""
    visible: bool = False
    focused: bool = False


class ResultError(msgspec.Struct, frozen=True):
    code: str
    message: str = ""


class Result(msgspec.Struct, frozen=True, tag_field="frame", tag="result"):
    q: str
    ok: bool
    data: Json = None
    error: ResultError | None = None


Up: TypeAlias = Hello | Events | PageState | Result


class Post(msgspec.Struct, frozen=True):
    """The body of sync and beacon."""

    page: ID
    tab: ID
    frames: list[msgspec.Raw] = []


# --- frames of the server


class Welcome(msgspec.Struct, frozen=True, tag_field="frame", tag="welcome"):
    settings: Settings
    limits: Limits
    seq: int = 0  # the newest batch of this page that is stored


class Ack(msgspec.Struct, frozen=True, tag_field="frame", tag="ack"):
    seq: int


class Query(msgspec.Struct, frozen=True, tag_field="frame", tag="query"):
    q: str
    type: QueryType
    params: dict[str, Json]
    timeout_ms: int


class Cancel(msgspec.Struct, frozen=True, tag_field="frame", tag="cancel"):
    q: str


class SettingsFrame(msgspec.Struct, frozen=True, tag_field="frame", tag="settings"):
    """The members of `settings` beside `frame`."""

    log_level: Level
    ws_mode: WsMode
    network_bodies: bool
    actions: bool


class Slow(msgspec.Struct, frozen=True, tag_field="frame", tag="slow"):
    ms: int


Down: TypeAlias = Welcome | Ack | Query | Cancel | SettingsFrame | Slow


class Reply(msgspec.Struct, frozen=True):
    """The answer to sync."""

    frames: list[Down]
