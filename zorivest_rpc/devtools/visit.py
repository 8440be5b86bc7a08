"""What a page says on one connection, frame by frame, whatever carries them; refusals are values of `Refused`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from zorivest_rpc.devtools.frames import VERSION, Ack, Events, Hello, PageState, Slow, Up, Welcome
from zorivest_rpc.devtools.intake import BadBatch, read_items
from zorivest_rpc.devtools.pages import Link, Page
from zorivest_rpc.devtools.watch import Watch

__all__ = ["GONE_AFTER", "Refused", "Visit"]

GONE_AFTER: Final = 60.0  # seconds without a connection after which a document's own connections count as closed
SLOW_MS: Final = 1_000
_up: Final = msgspec.json.Decoder(Up)


class Refused(Exception):
    """The connection ends here; `code` is a WebSocket close code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class NoHello(Refused):
    """The page did not say who it is."""

    def __init__(self) -> None:
        super().__init__(1008, "hello comes first")


class _Tag(msgspec.Struct):
    frame: str


class Visit:
    """`later` runs something after so many seconds; `page` may be known from what carries the frames."""

    def __init__(
        self,
        watch: Watch,
        link: Link,
        later: Callable[[float, Callable[[], None]], object],
        page: Page | None = None,
    ) -> None:
        self._watch = watch
        self._link = link
        self._later = later
        self.page = page
        self.slow = False  # the last batch was refused

    def receive(self, data: bytes) -> None:
        limits = self._watch.limits
        if self._watch.over:
            raise Refused(1008, "this key is no longer one")
        try:
            frame = _up.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            self._receive_loose(data, exc)
            return
        if isinstance(frame, Hello):
            if self.page is not None:  # the first one is free: what other pages do keeps none away
                self._check_rate()
            self._greet(frame)
            return
        page = self._require_page()
        if isinstance(frame, Events):
            if len(data) > limits.batch_bytes or len(frame.items) > limits.batch_items:
                raise Refused(1009, f"a batch has at most {limits.batch_items} items and {limits.batch_bytes} bytes")
            self._store(page, frame.seq, frame.items, frame.dropped)
        elif isinstance(frame, PageState):
            self._check_rate()
            before = page.url
            self._watch.pages.change(page, frame)
            if page.url != before:
                self._watch.navigated(page)
        elif not self._watch.live.answer(page, frame):
            self._check_rate()

    def _check_rate(self) -> None:
        """What is no batch counts as one event, and has no answer that could slow it down."""
        if not self._watch.limiter.take(1):
            raise Refused(1013, "too many frames")

    def _receive_loose(self, data: bytes, why: Exception) -> None:
        """One item of a batch is wrong, and costs itself alone; any other frame that cannot be read ends the visit."""
        try:
            tag = msgspec.json.decode(data, type=_Tag).frame
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            tag = "events" if data.startswith(b'{"frame":"events"') else ""
        limits = self._watch.limits
        if tag != "events" or len(data) > limits.batch_bytes:
            raise Refused(1008, f"this frame cannot be read: {str(why)[:80]}")
        try:
            seq, items, lost = read_items(data, limits.batch_items)
        except BadBatch as bad:
            raise Refused(1008, str(bad)[:100]) from None
        self._store(self._require_page(), seq, items, lost)

    def _store(self, page: Page, seq: int, items: list, lost: int) -> None:  # type: ignore[type-arg]
        self.slow = not self._watch.take(page, seq, items, lost)
        self._link.send(Slow(SLOW_MS) if self.slow else Ack(seq))

    def _greet(self, hello: Hello) -> None:
        if hello.v != VERSION:
            raise Refused(1008, f"this server speaks version {VERSION} of the collector's frames")
        watch = self._watch
        if self.page is not None and self.page.id != hello.page:
            raise Refused(1008, "one connection is of one page")
        page = watch.pages.greet(hello, self._link)
        if page is None:
            raise Refused(1013, "too many pages are connected")
        if page is not self.page:
            for other in watch.pages.of_tab(hello.tab):
                # one that is connected is still there: a frame has the tab of its page, and a window that of its opener
                if other.link is None:
                    _leave_for_good(watch, other)
        self.page = page
        self._link.send(Welcome(watch.settings, watch.limits, page.newest_batch))

    def _require_page(self) -> Page:
        if self.page is None:
            raise NoHello
        return self.page

    def end(self) -> None:
        """The connection is gone."""
        page, watch = self.page, self._watch
        if page is None or page.link is not self._link:
            return
        watch.pages.leave(page, self._link)
        if any(other.link is not None and other.number > page.number for other in watch.pages.of_tab(page.tab)):
            _leave_for_good(watch, page)  # the tab shows another document now
        else:
            self._later(GONE_AFTER, lambda: _leave_for_good(watch, page))


def _leave_for_good(watch: Watch, page: Page) -> None:
    if page.link is None:
        watch.buffers.sockets.leave(page.id, watch.now())
        watch.navigated(page)
