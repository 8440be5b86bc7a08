"""Pages that say anything a frame can hold: every mode of every tool answers, or refuses in our own words."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tests.devtools.stage import Desk, answer
from zorivest_rpc.devtools.frames import Down, Query, Settings
from zorivest_rpc.devtools.tools import Tools
from zorivest_rpc.errors import ToolError
from zorivest_rpc.serving.catalog.load import load

Json = Any
SPECS = {spec.name: spec for spec in load(opt_in=("devtools",)).tools if spec.toolset == "devtools"}
TEXTS = [
    *(
        "",
        "/",
        "?",
        "#",
        "a|b\n|c",
        "*/",
        "</script>",
        "\u2028",
        "'\"`${x}",
        "\n\r\t\0",
        "\U0001f600" * 50,
        "x" * 20_000,
    ),
    *(
        "http://localhost/",
        "http://[::1",
        "http://h:99999/x",
        "http://a@b:c@d/",
        "http://h/a b?c d#e",
        "//",
        "http://h:-1/",
    ),
    *(
        "javascript:alert(1)",
        "data:text/html,x",
        "http://h/{id}/%2e%2e/..",
        "%",
        "%zz",
        "%E0%A4%A",
        "__proto__",
        "[[[[",
    ),
    *(
        '{"a":{"b":{"c":{"d":{"e":1}}}}}',
        '{"x":1e999}',
        "nan",
        "-1",
        "9" * 400,
        "```",
        "![x](http://e/)",
        "http://\u0660/",
    ),
]
NUMBERS = [0, -1, 0.1, 1e15, 8.64e15, 8.65e15, -8.64e15, 1e300, -1e300, 2**53, 253402300799999, 253402300800000, 5e-324]
IMPACTS = ["critical", "minor", None, "x", 5]


class Liar:
    """All that it says is of the form that frames have, or nearly."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def text(self) -> str:
        return self.random.choice(TEXTS)

    def number(self) -> float:
        return self.random.choice(NUMBERS)

    def some(self, members: dict[str, Json]) -> dict[str, Json]:
        return {name: value for name, value in members.items() if self.random.random() < 0.7}

    def anything(self, depth: int = 0) -> Json:
        kind = self.random.randrange(6 if depth < 3 else 4)
        if kind == 4:
            return [self.anything(depth + 1) for _ in range(self.random.randrange(4))]
        if kind == 5:
            return {self.text(): self.anything(depth + 1) for _ in range(self.random.randrange(4))}
        return [self.text(), self.number(), None, True][kind]

    def item(self) -> Json:
        text, number, choice = self.text, self.number, self.random.choice
        of_request = {"request_body": text(), "response_body": text(), "content_type": text(), "wait_ms": number()}
        of_request |= {
            "response_headers": {text(): text(), "location": text()},
            "error": text(),
            "response_size": 2**53,
        }
        selectors = self.some({name: text() for name in ("test_id", "label", "text", "id", "css")})
        of_action = {"value": text(), "key": choice(["Enter", "x"]), "to_url": text(), "input_type": text()}
        metrics = {name: number() for name in ("ttfb", "fcp", "lcp", "cls", "inp", "load", "blocking_ms")}
        types = ("click", "input", "change", "key", "submit", "scroll", "navigate")
        kinds: list[dict[str, Json]] = [
            {"kind": "log", "level": choice(["error", "warn"]), "message": text(), **self.some({"stack": text()})},
            {"kind": "request", "method": text(), "url": text(), "status": choice([0, 1, 200, 404, 999])}
            | {"duration_ms": number(), **self.some(of_request)},
            {"kind": "ws", "event": choice(["open", "close", "message"]), "connection_id": "1", "url": text()}
            | self.some({"data": text(), "reason": text(), "code": 2**62}),
            {"kind": "ws_rate", "connection_id": "1", "incoming": 2**53},
            {"kind": "action", "type": choice(types), "url": text(), "selectors": selectors, **self.some(of_action)},
            {"kind": "perf", "url": text(), "bytes": 2**53, **self.some(metrics)},
        ]
        return {"ts": number(), **choice(kinds)}

    def data(self, type: str) -> Json:
        anything, count = self.anything, self.random.randrange
        if self.random.random() < 0.2:
            return anything()
        if type == "a11y":
            node = {"target": anything(), "html": anything(), "failureSummary": anything()}
            rule = {
                "id": self.text(),
                "help": anything(),
                "helpUrl": anything(),
                "tags": anything(),
                "nodes": [node] * count(3),
            }
            rules = [self.some(rule | {"impact": self.random.choice(IMPACTS)}) for _ in range(count(4))]
            return self.some({"url": self.text(), "engine": anything(), "violations": rules, "incomplete": rules})
        match = {
            "tag": anything(),
            "text": anything(),
            "attributes": anything(),
            "box": anything(),
            "children": anything(),
        }
        told = {"url": anything(), "title": anything(), "matches": [self.some(match)] * count(60), "forms": anything()}
        return self.some(told | {"headings": anything(), "viewport": anything(), "match_count": anything()})


def make_desk(liar: Liar) -> Desk:
    desk = Desk()
    desk.watch.intake.settings = Settings(ws_mode="messages")
    visit, link = desk.visit(url=liar.text(), title=liar.text())
    keep = link.send

    def send(frame: Down) -> None:
        keep(frame)
        if isinstance(frame, Query):
            answer(visit, frame, liar.data(frame.type))

    link.send = send  # type: ignore[method-assign]
    for _ in range(4):
        desk.send(visit, *(liar.item() for _ in range(20)))
        desk.clock.now += 3
    return desk


def check_archive(text: str) -> None:
    entries = json.loads(text)["log"]["entries"]
    assert [each["startedDateTime"] for each in entries] == sorted(each["startedDateTime"] for each in entries)
    for each in entries:
        assert min(each["timings"].values()) >= 0
        assert sum(each["timings"].values()) == each["time"]
        assert not set(" \n\t\0").intersection(each["request"]["url"])


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_a_page_says_each_mode_answers_within_its_shape(seed: int, tmp_path: Path) -> None:
    liar = Liar(seed)
    desk = make_desk(liar)
    tools = Tools(lambda call: desk.watch, lambda tenant: tmp_path, lambda tenant: None, desk.clock)
    for name, spec in SPECS.items():
        chooser = spec.input_schema["required"][0]
        for mode in spec.input_schema["properties"][chooser].get("enum", ["body"]):
            call: Json = SimpleNamespace(arguments={chooser: mode}, progress=lambda *told: None)
            words = ""
            try:
                outcome = await tools.handlers()[name](call)
            except ToolError as refused:  # what it needs, or that the page's answer cannot be read
                words = refused.text
            if words:
                assert not [text for text in TEXTS if len(text) > 3 and text in words], words
                continue
            assert outcome.meta == {"com.zorivest/untrusted": True}
            text = outcome.content[0]["text"]
            assert len(text) < 3_000_000
            if mode in ("har", "sarif"):
                json.loads(text)
            if mode == "har":
                check_archive(text)
