"""Items of a batch on their way into the buffers: what the settings leave out, what is secret, what is too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from zorivest_rpc.devtools.buffers import Buffers
from zorivest_rpc.devtools.frames import (
    Action,
    Events,
    Item,
    Limits,
    Log,
    LooseEvents,
    Performance,
    Request,
    Resource,
    Role,
    Selectors,
    Settings,
    Socket,
    SocketRate,
)
from zorivest_rpc.devtools.redact import (
    REDACTED,
    is_secret_name,
    redact_headers,
    redact_html,
    redact_text,
    redact_url,
)
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["LEVELS", "BadBatch", "Intake", "cut", "read_items"]

LEVELS: Final = ("error", "warn", "info", "debug")
KEYS: Final = frozenset(
    ("Enter", "Escape", "Tab", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Backspace", "Delete")
)
_OVERHEAD: Final = 200  # bytes that an entry takes beside its texts
_URL: Final = 2_048
_SHORT: Final = 200
_MOST_HEADERS: Final = 64
_HEADER: Final = 1_024
_LATEST: Final = 8.64e15  # the last millisecond that a Date can hold
_HALF: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_item: Final = msgspec.json.Decoder(Item)
_events: Final = msgspec.json.Decoder(Events)
_loose: Final = msgspec.json.Decoder(LooseEvents)


class BadBatch(Exception):
    """Not a batch, or one above the limits; the message says which."""


def read_items(data: bytes, most: int) -> tuple[int, list[Item], int]:
    """seq, the items that can be read, and how many are lost: those the page dropped, and those that cannot."""
    try:
        events = _events.decode(data)
        items, seq, lost = events.items, events.seq, events.dropped
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            # JSON.stringify writes half of a pair, as cutting a text leaves it, as an escape that is no character
            loose = _loose.decode(_HALF.sub(rb"\\ufffd", data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise BadBatch(str(exc)) from None
        items, seq, lost = _read_each(loose.items), loose.seq, loose.dropped
        lost += len(loose.items) - len(items)
    if len(items) > most:
        raise BadBatch(f"a batch has at most {most} items")
    return seq, items, lost


def _read_each(raw: Sequence[msgspec.Raw]) -> list[Item]:
    items: list[Item] = []
    for each in raw:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            items.append(_item.decode(each))
    return items


class Intake:
    """One per tenant; `settings` is what pages were told to collect, and binds a page that does not listen."""

    def __init__(self, buffers: Buffers, limits: Limits, now: Callable[[], float]) -> None:
        self._buffers = buffers
        self._limits = limits
        self._now = now
        self.settings = Settings()
        self._take: dict[type, Callable[[Json, str, str], None]] = {
            Log: self._log,
            Request: self._request,
            Socket: self._socket,
            SocketRate: self._rate,
            Action: self._action,
            Performance: self._performance,
        }

    def add(self, items: Sequence[Item], page: str, tab: str) -> None:
        take = self._take
        for item in items:
            take[type(item)](item, page, tab)

    def _time(self, ts: float) -> float:
        """The page's time, or ours where it is none."""
        return ts if 0.0 <= ts <= _LATEST else self._now() * 1000.0

    def _log(self, item: Log, page: str, tab: str) -> None:
        wanted = LEVELS.index(self.settings.log_level)
        if item.level != "error" and LEVELS.index(item.level) > wanted:
            return
        longest = self._limits.message
        message = cut(redact_text(item.message), longest)
        source = item.source if item.source == "console" else cut(redact_url(item.source), _URL)
        stack = None if item.stack is None else cut(redact_text(item.stack), longest)
        size = _OVERHEAD + _size(message) + _size(source) + _size(stack)
        kept = Log(self._time(item.ts), item.level, message, source, stack, item.count)
        self._buffers.add_log(kept, page, tab, size)

    def _request(self, item: Request, page: str, tab: str) -> None:
        limits, bodies = self._limits, self.settings.network_bodies
        asked, asked_cut = _body(item.request_body if bodies else None, limits.request_body)
        answered, answered_cut = _body(item.response_body if bodies else None, limits.response_body)
        url = cut(redact_url(item.url), _URL)
        sent, received = _headers(item.request_headers), _headers(item.response_headers)
        size = _OVERHEAD + _size(url) + _size(asked) + _size(answered) + _size_of(sent) + _size_of(received)
        kept = Request(
            self._time(item.ts),
            item.method[:20].upper(),
            url,
            item.status,
            _duration(item.duration_ms),
            asked,
            answered,
            item.request_truncated or asked_cut,
            item.response_truncated or answered_cut,
            item.content_type[:_SHORT],
            item.request_content_type[:_SHORT],
            sent,
            received,
            item.request_size,
            item.response_size,
            None if item.wait_ms is None else min(_duration(item.wait_ms), _duration(item.duration_ms)),
            None if item.error is None else cut(redact_text(item.error), _URL),
        )
        self._buffers.add_request(kept, page, tab, size)

    def _socket(self, item: Socket, page: str, tab: str) -> None:
        mode = self.settings.ws_mode
        if mode == "off" or (item.event == "message" and mode != "messages"):
            return
        data = None if item.data is None else cut(redact_text(item.data), self._limits.ws_message)
        reason = None if item.reason is None else cut(redact_text(item.reason), _SHORT)
        url = cut(redact_url(item.url), _URL)
        size = _OVERHEAD + _size(url) + _size(data) + _size(reason)
        kept = msgspec.structs.replace(item, ts=self._time(item.ts), url=url, data=data, reason=reason)
        self._buffers.add_socket(kept, page, tab, size)

    def _rate(self, item: SocketRate, page: str, tab: str) -> None:
        if self.settings.ws_mode != "off":
            self._buffers.add_rate(item, page)

    def _action(self, item: Action, page: str, tab: str) -> None:
        if not self.settings.actions:
            return
        url = cut(redact_url(item.url), _URL)
        to_url = None if item.to_url is None else cut(redact_url(item.to_url), _URL)
        value = item.value
        if value is not None:
            secret = item.input_type == "password" or _names_a_secret(item.selectors)
            value = REDACTED if secret and value else redact_text(value)[: self._limits.value]
        selectors = _selectors(item.selectors)
        size = _OVERHEAD + _size(url) + _size(to_url) + _size(value) + _size_of_selectors(selectors)
        kept = Action(
            self._time(item.ts),
            item.type,
            url,
            selectors,
            value,
            item.key if item.key in KEYS else None,
            to_url,
            None if item.input_type is None else item.input_type[:40],
        )
        self._buffers.add_action(kept, page, tab, size)

    def _performance(self, item: Performance, page: str, tab: str) -> None:
        slowest = [
            Resource(cut(redact_url(each.url), _URL), each.initiator[:40], _duration(each.duration_ms), each.bytes)
            for each in item.slowest
        ]
        url = cut(redact_url(item.url), _URL)
        kept = msgspec.structs.replace(item, ts=self._time(item.ts), url=url, slowest=slowest)
        self._buffers.add_performance(kept, page, tab, _OVERHEAD)


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit or (text.isascii() and len(text) <= limit):
        return text
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode(errors="ignore")


def _body(body: str | None, limit: int) -> tuple[str | None, bool]:
    """Redacted before it is cut: what is cut first may lose the name that gives a secret away."""
    if body is None:
        return None, False
    kept = redact_text(body)
    short = cut(kept, limit)
    return short, len(short) < len(kept)


def _headers(headers: dict[str, str]) -> dict[str, str]:
    if not headers:
        return headers
    if len(headers) > _MOST_HEADERS:
        headers = dict(list(headers.items())[:_MOST_HEADERS])
    return {name[:_SHORT]: value[:_HEADER] for name, value in redact_headers(headers).items()}


def _names_a_secret(selectors: Selectors) -> bool:
    named = (selectors.test_id, selectors.label, selectors.id, selectors.css, selectors.role and selectors.role.name)
    return any(name and is_secret_name(name) for name in named)


def _selectors(given: Selectors) -> Selectors:
    role = given.role and Role(given.role.role[:40], cut(redact_text(given.role.name), _SHORT))
    texts = (given.test_id, given.label, given.text, given.id, given.css)
    test_id, label, text, id, css = (None if each is None else cut(redact_html(each), _SHORT) for each in texts)
    return Selectors(test_id, role or None, label, text, id, css)


def _duration(ms: float) -> float:
    """What is no duration counts as none."""
    return ms if 0.0 <= ms < 1e10 else 0.0


def _size(text: str | None) -> int:
    return 0 if text is None else len(text) if text.isascii() else len(text.encode())


def _size_of(headers: dict[str, str]) -> int:
    return sum(_size(name) + _size(value) for name, value in headers.items())


def _size_of_selectors(selectors: Selectors) -> int:
    role = selectors.role
    texts = (selectors.test_id, selectors.label, selectors.text, selectors.id, selectors.css)
    return sum(_size(text) for text in texts) + (_size(role.name) if role else 0)
