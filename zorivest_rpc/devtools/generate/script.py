"""Playwright scripts in TypeScript: one that reproduces an error, and one that tests what was done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec
import orjson

from zorivest_rpc.devtools.entries import Artefact, Entry, Recording
from zorivest_rpc.devtools.frames import Action, Log, Request
from zorivest_rpc.devtools.generate.steps import Address, Step, choose_actions, make_steps, path_of
from zorivest_rpc.devtools.generate.typescript import REDACTED, encode_comment, encode_string
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["MOST_BYTES", "make_reproduction", "make_test"]

MOST_BYTES: Final = 50 << 10
MEDIA_TYPE: Final = "text/x-typescript"
_MOST_PROMISES: Final = 5  # of one step
_DEPTH: Final = 4  # of a shape
_PREFIX: Final = re.compile(r"^Uncaught (\(in promise\) )?")
_LISTEN: Final = (
    "const errors: string[] = [];",
    'page.on("pageerror", (error) => errors.push(`${error.name}: ${error.message}`));',
    'page.on("console", (line) => {',
    '  if (line.type() === "error" && !line.text().startsWith("Failed to load resource")) errors.push(line.text());',
    "});",
)
_SHAPE: Final = """
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf);
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  return Object.fromEntries(Object.entries(value as object).map(([name, each]) => [name, shapeOf(each)]));
}
"""


class _Script(msgspec.Struct, frozen=True):
    name: str
    address: Address
    base: str
    before: tuple[str, ...]  # the first page
    opening: Step
    steps: tuple[tuple[Step, tuple[str, ...]], ...]  # with the lines of each
    after: tuple[str, ...]
    shapes: bool


def make_reproduction(recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    """The way to an error: it passes when the error is there again."""
    wanted = arguments.get("error_message")
    error = _newest_error(recording, wanted)
    notes: list[str] = []
    if error is None and not wanted:
        notes.append("No error was recorded: the script does what was done and expects nothing.")
    elif error is None:
        notes.append("No recorded error contains this message: the script expects it after the last action.")
    message = _core(error.item.message if error else str(wanted or ""))
    actions = choose_actions(recording, arguments.get("last_n_actions"), error.item.ts if error else None)
    after = (
        [f'await expect.poll(() => errors.join("\\n")).toContain({encode_string(message)});']
        if message
        else [encode_comment("nothing is expected: no error was recorded")]
    )
    name = f"reproduces: {message}"[:120] if message else "reproduces what was done"
    address, base, start = _start(recording, actions, error, arguments)
    steps = make_steps(actions, (), address)
    body = [(step, step.lines) for step in steps]
    opening = Step((_open(address, start),), 0.0, start, "")
    script = _Script(name, address, base, _LISTEN, opening, tuple(body), tuple(after), False)
    return _render(script, notes)


def make_test(recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    """What was done, and that the page's requests are answered as they were."""
    actions = choose_actions(recording, arguments.get("last_n_actions"))
    notes: list[str] = []
    address, base, start = _start(recording, actions, None, arguments)
    pages = {entry.page for entry in actions}
    requests = [
        entry.item
        for entry in recording.network
        if entry.page in pages and entry.item.status and REDACTED not in path_of(entry.item.url)
    ]
    requests.sort(key=lambda request: request.ts)
    shapes = bool(arguments.get("assert_response_shape"))
    network = bool(arguments.get("assert_network")) or shapes
    steps = make_steps(actions, requests, address)
    first = min((entry.item.ts for entry in actions), default=0.0)
    loading = [request for request in requests if request.ts < first and actions and actions[0].page in pages]
    own = {entry.item.ts for entry in recording.network if actions and entry.page == actions[0].page}
    opening = Step((_open(address, start),), 0.0, start, "", tuple(each for each in loading if each.ts in own))
    counter = _Counter()
    before: tuple[str, ...] = ()
    after: list[str] = []
    if arguments.get("assert_no_errors"):
        errors = sum(1 for entry in recording.logs if entry.item.level == "error" and entry.page in pages)
        if errors:
            after.append(encode_comment(f"that no error occurs is not expected: {errors} were recorded meanwhile"))
            notes.append("Errors were recorded, so the script does not expect that there are none.")
        else:
            before, after = _LISTEN, ["expect(errors).toEqual([]);"]
    render = counter.lines if network else _plain
    opened = Step(render(opening, shapes), 0.0, start, "")
    lines = [(step, render(step, shapes)) for step in steps]
    name = str(arguments.get("test_name") or "what was recorded")
    return _render(_Script(name, address, base, before, opened, tuple(lines), tuple(after), shapes), notes)


def _plain(step: Step, shapes: bool) -> tuple[str, ...]:
    return step.lines


class _Counter:
    """Numbers the promises of a script."""

    def __init__(self) -> None:
        self._count = 0

    def lines(self, step: Step, shapes: bool) -> tuple[str, ...]:
        """Promises before the step that makes their requests: afterwards the answer might be there already."""
        before: list[str] = []
        after: list[str] = []
        seen: dict[tuple[str, str], Request] = {}
        for request in step.requests:
            seen.setdefault((request.method, path_of(request.url)), request)
        for (method, path), request in list(seen.items())[:_MOST_PROMISES]:
            self._count += 1
            name = f"response{self._count}"
            before += [
                f"const {name} = page.waitForResponse((response) =>",
                f"  response.request().method() === {encode_string(method)} &&"
                f" new URL(response.url()).pathname === {encode_string(path)});",
            ]
            after.append(f"expect((await {name}).status()).toBe({request.status});")
            shape = _shape(request) if shapes else None
            if shape is not None:
                after.append(f"expect(shapeOf(await (await {name}).json())).toMatchObject({shape});")
        return (*before, *step.lines, *after)


def _shape(request: Request) -> str | None:
    body = request.response_body
    if not body or request.response_truncated or body.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return _shape_of(orjson.loads(body), 1)
    except orjson.JSONDecodeError:
        return None


def _shape_of(value: Json, depth: int) -> str:
    if value is None or value == REDACTED or depth > _DEPTH:
        return "expect.anything()"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{encode_string(k)}: {_shape_of(v, depth + 1)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return f"[{_shape_of(value[0], depth + 1)}]" if value else "expect.any(Array)"
    if isinstance(value, bool):
        return '"boolean"'
    return '"string"' if isinstance(value, str) else '"number"'


def _newest_error(recording: Recording, wanted: Json) -> Entry[Log] | None:
    for entry in reversed(recording.logs):
        if entry.item.level == "error" and (not wanted or _core(str(wanted)) in entry.item.message):
            return entry
    return None


def _core(message: str) -> str:
    """What the browser says of an error wherever it tells it: one line, without what was redacted."""
    line = _PREFIX.sub("", message.strip().partition("\n")[0]).strip()
    return max(line.split(REDACTED), key=len).strip()[:300]


def _start(
    recording: Recording, actions: Sequence[Entry[Action]], error: Entry[Log] | None, arguments: Mapping[str, Json]
) -> tuple[Address, str, str]:
    """How addresses are written, the base, and the first page."""
    url = actions[0].item.url if actions else ""
    if not url and error is not None:
        # without an action the page of the error is all that is known of the way to it
        url = re.sub(r":\d+:\d+$", "", error.item.source) if error.item.source.startswith("http") else ""
    url = url or (recording.page.url if recording.page else "about:blank")
    try:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    except ValueError:
        origin = ""
    base = str(arguments.get("base_url") or origin).rstrip("/")
    return Address(origin), base, url


def _open(address: Address, url: str) -> str:
    return f"await page.goto({address.encode(url.replace(REDACTED, ''))});"


def _render(script: _Script, notes: list[str]) -> Artefact:
    """The whole, without the oldest steps where it would be too long."""
    head = ['import { expect, test } from "@playwright/test";', "", f"const BASE = {encode_string(script.base)};"]
    if script.shapes:
        head.append(_SHAPE.rstrip())
    start = [
        *head,
        "",
        f"test({encode_string(script.name)}, async ({{ page }}) => {{",
        *(f"  {line}" for line in script.before),
    ]
    end = [*(f"  {line}" for line in script.after), "});", ""]
    steps = list(script.steps)
    texts = ["".join(f"  {line}\n" for line in lines) for _, lines in steps]
    opening = "".join(f"  {line}\n" for line in script.opening.lines)
    room = MOST_BYTES - len("\n".join([*start, *end, opening]).encode()) - 500
    dropped = 0
    while dropped < len(texts) and sum(len(text.encode()) for text in texts[dropped:]) > room:
        dropped += 1
    if dropped:
        notes.append(f"The oldest {dropped} steps were dropped to stay within 50 KiB.")
        url = steps[dropped][0].url if dropped < len(steps) else script.opening.url
        opening = f"  {encode_comment(notes[-1])}\n  {_open(script.address, url)}\n"
    if not steps:
        notes.append("No action was recorded: the script only opens the page.")
    content = "\n".join(start) + "\n" + opening + "".join(texts[dropped:]) + "\n".join(end)
    return Artefact(content, MEDIA_TYPE, tuple(notes))
