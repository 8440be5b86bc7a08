"""The documents that carry the collector: which are connected, which one is meant, and which batches are stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from zorivest_rpc.devtools.entries import PageName
from zorivest_rpc.devtools.frames import Down, Hello, PageState
from zorivest_rpc.devtools.intake import cut
from zorivest_rpc.devtools.redact import redact_text, redact_url
from zorivest_rpc.errors import ToolError

__all__ = ["NO_PAGE", "Link", "Page", "Pages"]

MOST_PAGES: Final = 100  # remembered
MOST_CONNECTED: Final = 50
_MOST_SEQS: Final = 128
_SNIPPET: Final = "zorivest-rpc devtools snippet"
NO_PAGE: Final = f"No page is connected. Add the collector script to a page ({_SNIPPET} prints it), then try again."


class Link(Protocol):
    """The way to one page."""

    def send(self, frame: Down) -> None: ...

    def close(self) -> None: ...


class Page:
    """One document, from its first hello on."""

    __slots__ = ("_floor", "_seqs", "focused", "id", "link", "number", "tab", "title", "url", "visible")

    def __init__(self, id: str, tab: str) -> None:
        self.id = id
        self.tab = tab
        self.url = ""
        self.title = ""
        self.visible = False
        self.focused = 0  # when it was focused last, as a number that counts
        self.number = 0  # when it said hello, likewise
        self.link: Link | None = None
        self._seqs: set[int] = set()
        self._floor = 0  # batches up to here are known

    @property
    def name(self) -> PageName:
        return PageName(self.id, self.url, self.title)

    @property
    def newest_batch(self) -> int:
        return max(self._seqs, default=self._floor)

    def is_new(self, seq: int) -> bool:
        """Whether this batch is not stored yet; it counts as stored from now on."""
        if seq <= self._floor or seq in self._seqs:
            return False
        self._seqs.add(seq)
        while self._floor + 1 in self._seqs:
            self._floor += 1
            self._seqs.discard(self._floor)
        if len(self._seqs) > _MOST_SEQS:
            self._floor = min(self._seqs)
            self._seqs.discard(self._floor)
        return True

    def describe(self, url: str, title: str, visible: bool) -> None:
        self.url = cut(redact_url(url), 2_048)
        self.title = cut(redact_text(title), 200)
        self.visible = visible


class Pages:
    """`left` is told of a document that is no longer connected."""

    def __init__(self, left: Callable[[Page], None]) -> None:
        self._known: OrderedDict[str, Page] = OrderedDict()
        self._left = left
        self._counted = 0
        self.chosen: str | None = None  # by configure(capture)

    def find(self, id: str) -> Page | None:
        return self._known.get(id)

    def all(self) -> list[Page]:
        return list(self._known.values())

    def of_tab(self, tab: str) -> list[Page]:
        return [page for page in self._known.values() if page.tab == tab]

    def meet(self, id: str, tab: str) -> Page:
        """The page of this id, connected or not: its last words come when it is gone."""
        page = self._known.get(id)
        if page is None:
            page = self._known[id] = Page(id, tab)
            self._forget_old()
        return page

    def connected(self) -> list[Page]:
        """Those that were focused last come first."""
        pages = [page for page in self._known.values() if page.link is not None]
        return sorted(pages, key=lambda page: (page.focused, page.number), reverse=True)

    def greet(self, hello: Hello, link: Link) -> Page | None:
        """The page that said hello on this link, which replaces an older one; None if there are too many."""
        page = self._known.get(hello.page)
        if (page is None or page.link is None) and len(self.connected()) >= MOST_CONNECTED:
            return None
        if page is None:
            page = self._known[hello.page] = Page(hello.page, hello.tab)
        self._known.move_to_end(page.id)
        older, page.link = page.link, link
        if older is not None and older is not link:
            self._left(page)  # queries of the older connection fail: nothing says that this one has them
            older.close()
        self._counted += 1
        page.number = self._counted
        page.describe(hello.url, hello.title, hello.visible)
        self._forget_old()
        return page

    def change(self, page: Page, state: PageState) -> None:
        page.describe(state.url, state.title, state.visible)
        if state.focused:
            self._counted += 1
            page.focused = self._counted

    def leave(self, page: Page, link: Link) -> None:
        """The link is gone. One that another has replaced leaves nothing behind."""
        if page.link is link:
            page.link = None
            self._left(page)

    def target(self, id: str | None = None) -> Page:
        """The connected page that is meant, or the error that says why there is none."""
        connected = self.connected()
        if id is not None:
            page = next((page for page in connected if page.id == id), None)
            if page is None:
                raise _not_connected(id, connected)
            return page
        if not connected:
            raise ToolError(NO_PAGE, code="no_page", next=f"Ask the user to run {_SNIPPET}.")
        if self.chosen is not None:
            page = next((page for page in connected if page.id == self.chosen), None)
            if page is None:
                raise _not_connected(self.chosen, connected)
            return page
        focused = next((page for page in connected if page.visible and page.focused), None)
        if focused is not None:
            return focused
        visible = [page for page in connected if page.visible]
        for candidates in (connected, visible):
            if len(candidates) == 1:
                return candidates[0]
        words = f"Several pages are connected; name one as page. Connected: {_list(connected)}."
        raise ToolError(words, code="several_pages", next="configure(load) tells which is which; call again with page.")

    def name_of_target(self, id: str | None = None) -> PageName | None:
        """As `target`, or of a page that is known and gone; None where there is none."""
        try:
            return self.target(id).name
        except ToolError:
            page = None if id is None else self._known.get(id)
            return None if page is None else page.name

    def _forget_old(self) -> None:
        if len(self._known) > MOST_PAGES:
            oldest = next((page.id for page in self._known.values() if page.link is None), None)
            if oldest is not None:
                del self._known[oldest]


def _not_connected(id: str, connected: list[Page]) -> ToolError:
    words = f'Page "{id}" is not connected. Connected: {_list(connected)}.'
    return ToolError(
        words, code="page_not_connected", next="Name one of them (configure(load) tells which is which), or none."
    )


def _list(connected: list[Page]) -> str:
    """By id alone: addresses are words of pages, and an error is read as ours; configure(load) tells them."""
    return ", ".join(page.id for page in connected) or "none"
