"""What a user did, as the steps of a script: one line of Playwright each, and the requests that followed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from zorivest_rpc.devtools.entries import Entry, Recording
from zorivest_rpc.devtools.frames import Action, Request
from zorivest_rpc.devtools.generate.typescript import REDACTED, encode_comment, encode_string, locator

__all__ = ["Address", "Step", "choose_actions", "make_steps", "path_of"]

_PAUSE_MS: Final = 2000.0
_CAUSED_MS: Final = 5000.0  # a page that changes so soon after a click was changed by it
_EDITING: Final = frozenset(("Backspace", "Delete", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"))
_TICKED: Final = frozenset(("checkbox", "radio"))
_MOST_VALUE: Final = 100  # characters that a page tells of a field


class Step(msgspec.Struct, frozen=True):
    lines: tuple[str, ...]
    ts: float
    url: str  # of the document it is done in
    page: str
    requests: tuple[Request, ...] = ()  # that it set off


class Address(msgspec.Struct, frozen=True):
    """`base` stands in the script for the origin of the first page."""

    origin: str

    def encode(self, url: str) -> str:
        if url == self.origin or url.startswith((self.origin + "/", self.origin + "?", self.origin + "#")):
            return f"BASE + {encode_string(url.removeprefix(self.origin))}"
        return encode_string(url)


def choose_actions(recording: Recording, last: int | None, before: float | None = None) -> list[Entry[Action]]:
    """The actions of one tab, the target page's or the newest: two tabs would be two scripts."""
    actions = [entry for entry in recording.actions if before is None or entry.item.ts <= before]
    if not actions:
        return []
    tab = actions[-1].tab
    if recording.page is not None:
        tab = next((entry.tab for entry in reversed(actions) if entry.page == recording.page.id), tab)
    chosen = [entry for entry in actions if entry.tab == tab]
    return chosen[-last:] if last else chosen


def make_steps(actions: Sequence[Entry[Action]], requests: Sequence[Request], address: Address) -> list[Step]:
    """The steps after the first page is open; `requests` are those of its tab, by the time of their start."""
    steps: list[Step] = []
    inputs = 0
    kept = [entry for at, entry in enumerate(actions) if not _is_covered(actions, at)]
    for at, entry in enumerate(kept):
        action, previous = entry.item, kept[at - 1] if at else None
        if REDACTED in (action.value or ""):
            inputs += 1
        lines = [*_between(previous, entry, address)] if previous is not None else []
        lines.append(_line(action, inputs, previous.item if previous else None, address))
        end = kept[at + 1].item.ts if at + 1 < len(kept) else action.ts + _CAUSED_MS
        caused = tuple(request for request in requests if action.ts <= request.ts < end)
        if action.type in ("submit", "navigate") and steps and previous is not None and entry.page == previous.page:
            # what followed from the step before: its requests are waited for from before that step on
            last = steps.pop()
            steps.append(Step((*last.lines, *lines), last.ts, last.url, last.page, (*last.requests, *caused)))
        else:
            steps.append(Step(tuple(lines), action.ts, action.url, entry.page, caused))
    return steps


def _between(previous: Entry[Action], entry: Entry[Action], address: Address) -> Iterator[str]:
    pause = entry.item.ts - previous.item.ts
    if pause > _PAUSE_MS:
        yield encode_comment(f"{pause / 1000:.1f} s later")
    if entry.page != previous.page:
        yield _arrive(previous.item, entry.item, address)


def _is_covered(actions: Sequence[Entry[Action]], at: int) -> bool:
    """Whether a later action does the same and more: the last value of a field, what a tick or a choice became."""
    action = actions[at].item
    if at + 1 == len(actions):
        return False
    following = next(
        (each.item for each in actions[at + 1 :] if not (each.item.type == "key" and each.item.key in _EDITING)), None
    )
    same = following is not None and following.selectors == action.selectors
    if following is None or not same:
        return False
    if action.type == "input":
        return following.type == "input"
    if action.type == "click":
        return following.type == "change" and action.input_type in _TICKED
    return action.type == "key" and action.key in _EDITING and following.type in ("input", "change")


def _arrive(previous: Action, action: Action, address: Address) -> str:
    if REDACTED in action.url:
        return encode_comment(f"another page was opened here: {action.url}")
    caused = previous.type in ("click", "submit", "key") and action.ts - previous.ts < 60_000
    if caused and action.url != previous.url:
        return f"await page.waitForURL({address.encode(action.url)});"
    return f"await page.goto({address.encode(action.url)});"


def _line(action: Action, inputs: int, previous: Action | None, address: Address) -> str:
    if action.type == "scroll":
        return _scroll(action)
    if action.type == "navigate":
        return _navigate(action, previous, address)
    if action.type == "submit":
        caused = previous is not None and previous.type in ("click", "key")
        return encode_comment("the form was submitted by this" if caused else "a form was submitted by a script here")
    found = locator(action.selectors)
    if action.type == "key" and (found is None or action.selectors.css in ("html", "html > body")):
        return f"await page.keyboard.press({encode_string(action.key or '')});"
    if found is None:
        return encode_comment(f"{action.type} on an element that nothing identifies: do it by hand")
    return _act(action, found, inputs)


def _act(action: Action, found: str, inputs: int) -> str:
    value = action.value or ""
    given = f'process.env.ZV_INPUT_{inputs} ?? ""' if REDACTED in value else encode_string(value)
    if action.type == "click":
        return f"await {found}.click();"
    if action.type == "key":
        return f"await {found}.press({encode_string(action.key or '')});"
    if action.input_type == "file":
        return encode_comment(f"files were chosen here: {value}")
    if action.input_type in _TICKED:
        return f"await {found}.setChecked({'true' if value == 'true' else 'false'});"
    if action.input_type == "select-multiple":
        return f"await {found}.selectOption([{', '.join(map(encode_string, value.split(',')))}]);"
    if action.type == "change":
        return f"await {found}.selectOption({given});"
    cut = " // only the start of what was typed is known" if len(value) >= _MOST_VALUE else ""
    return f"await {found}.fill({given});{cut}"


def _scroll(action: Action) -> str:
    x, _, y = (action.value or "").partition(",")
    if not (x.lstrip("-").isdecimal() and y.lstrip("-").isdecimal()):
        return encode_comment("the page was scrolled here")
    return f"await page.evaluate(() => window.scrollTo({int(x)}, {int(y)}));"


def _navigate(action: Action, previous: Action | None, address: Address) -> str:
    target = action.to_url or ""
    caused = previous is not None and previous.type in ("click", "key", "submit")
    if not caused or not target or REDACTED in target:
        return encode_comment(f"the page went to {target or 'another address'} here")
    return f"await page.waitForURL({address.encode(target)});"


def path_of(url: str) -> str:
    try:
        return urlsplit(url).path or "/"
    except ValueError:
        return "/"
