"""Scripts: each string is text, each step stands where it belongs, and nothing is guessed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devtools.generate.recordings import URL, act, ask, entry, fail, record
from zorivest_rpc.devtools.entries import Recording
from zorivest_rpc.devtools.frames import Role, Selectors
from zorivest_rpc.devtools.generate import make_artefact
from zorivest_rpc.devtools.generate.script import MOST_BYTES
from zorivest_rpc.devtools.generate.typescript import encode_comment, encode_string, locator


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_one_string_literal_and_one_comment(text: str) -> None:
    literal = encode_string(text)
    assert json.loads(literal) == text
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", literal)
    comment = encode_comment(text)
    assert comment.startswith("// ")
    assert len(comment.splitlines()) == 1
    assert len(comment) < 170


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ({"test_id": "t", "id": "i"}, 'page.getByTestId("t")'),
        (
            {"role": Role("button", "Buy"), "text": "Buy"},
            'page.getByRole("button", { name: "Buy", exact: true })',
        ),
        ({"role": Role("button", ""), "label": "L"}, 'page.getByLabel("L", { exact: true })'),
        ({"role": Role('x");', "n"), "text": "T"}, 'page.getByText("T", { exact: true })'),
        ({"id": 'a"]b', "css": "p"}, 'page.locator("css=[id=\\"a\\\\22 ]b\\"]")'),
        ({"css": "main > p"}, 'page.locator("css=main > p")'),
        ({"test_id": "[redacted]", "css": "p"}, 'page.locator("css=p")'),
        ({}, None),
    ],
)
def test_the_best_way_to_find_an_element_is_taken(selectors: dict[str, Any], expected: str | None) -> None:
    assert locator(Selectors(**selectors)) == expected


def body(recording: Recording, format: str = "test", **arguments: Any) -> list[str]:
    """The lines inside of the test, without those that listen for errors."""
    text = make_artefact(format, recording, arguments).content
    inside = text.partition("async ({ page }) => {\n")[2].rpartition("});")[0]
    return [line.strip() for line in inside.splitlines()]


# long: a table of actions and lines
def test_each_kind_of_action_has_its_line() -> None:
    lines = body(
        record(
            act("click"),
            act("input", 10, value="ACME"),
            act("input", 20, value="[redacted]", selectors=Selectors(label="Password")),
            act("input", 25, value="[redacted]", selectors=Selectors(label="Again")),
            act("change", 30, value="s", input_type="select-one"),
            act("change", 40, value="a,b", input_type="select-multiple"),
            act("click", 50, input_type="checkbox", selectors=Selectors(id="box")),
            act("change", 51, value="true", input_type="checkbox", selectors=Selectors(id="box")),
            act("change", 60, value="x.pdf", input_type="file"),
            act("key", 70, key="Escape", selectors=Selectors(css="html > body")),
            act("scroll", 80, value="0,700", selectors=Selectors()),
            act("scroll", 85, value="0,alert(1)", selectors=Selectors()),
            act("click", 90, selectors=Selectors()),
            act("key", 5000, key="Enter"),
            act("submit", 5001),
            act("navigate", 5002, to_url="http://shop.test/done?x=1", selectors=Selectors()),
        )
    )
    it = 'await page.getByTestId("it")'
    assert lines == [
        'await page.goto(BASE + "/orders");',
        f"{it}.click();",
        f'{it}.fill("ACME");',
        'await page.getByLabel("Password", { exact: true }).fill(process.env.ZV_INPUT_1 ?? "");',
        'await page.getByLabel("Again", { exact: true }).fill(process.env.ZV_INPUT_2 ?? "");',
        f'{it}.selectOption("s");',
        f'{it}.selectOption(["a", "b"]);',
        'await page.locator("css=[id=\\"box\\"]").setChecked(true);',
        "// files were chosen here: x.pdf",
        'await page.keyboard.press("Escape");',
        "await page.evaluate(() => window.scrollTo(0, 700));",
        "// the page was scrolled here",
        "// click on an element that nothing identifies: do it by hand",
        "// 4.9 s later",
        f'{it}.press("Enter");',
        "// the form was submitted by this",
        'await page.waitForURL(BASE + "/done?x=1");',
    ]


def test_a_field_is_filled_once_with_what_it_held_at_last() -> None:
    lines = body(
        record(
            act("input", 0, value="ACMX"),
            act("key", 5, key="Backspace"),
            act("input", 9, value="ACME"),
            act("click", 20, selectors=Selectors(text="Go")),
            act("navigate", 25, to_url="http://shop.test/done", selectors=Selectors()),
        )
    )
    assert lines[1:] == [
        'await page.getByTestId("it").fill("ACME");',
        'await page.getByText("Go", { exact: true }).click();',
        'await page.waitForURL(BASE + "/done");',
    ]


def test_another_document_is_waited_for_or_opened() -> None:
    first, second = act("click"), act("click", 100, url="http://shop.test/next")
    recording = Recording(
        page=None, at=0.0, version="1", actions=(entry(first), entry(second, 2, page="c" * 16)), network=()
    )
    assert 'await page.waitForURL(BASE + "/next");' in body(recording)
    late = Recording(
        page=None,
        at=0.0,
        version="1",
        actions=(entry(act("scroll", value="0,1")), entry(second, 2, page="c" * 16)),
    )
    assert 'await page.goto(BASE + "/next");' in body(late)


def test_only_the_tab_of_the_target_is_replayed() -> None:
    other = entry(act("click", 5, selectors=Selectors(test_id="other")), 2, page="c" * 16, tab="d" * 16)
    recording = record(act("click"))
    recording = Recording(recording.page, 0.0, "1", actions=(*recording.actions, other))
    assert "other" not in "".join(body(recording))


def test_promises_stand_before_the_step_that_makes_their_requests() -> None:
    recording = record(
        ask(-50, "/api/load"),
        act("click"),
        ask(5, "/api/b", "POST", 201, response_body='{"id":1,"name":"x","none":null,"rows":[{"a":true}],"no":[]}'),
        ask(6, "/api/b", "POST", 500),
        act("submit", 7),
        ask(8, "/api/c"),
        ask(9, "/api/lost", status=0),
    )
    lines = body(recording, assert_network=True)
    order = [line for line in lines if "response" in line and "expect" not in line and "request()" not in line]
    assert [line.split()[1] for line in order] == ["response1", "response2", "response3"]
    click = lines.index('await page.getByTestId("it").click();')
    assert lines.index(order[0]) < lines.index('await page.goto(BASE + "/orders");')
    assert all(lines.index(line) < click for line in order)
    assert "expect((await response2).status()).toBe(201);" in lines[click:]
    assert 'pathname === "/api/c");' in "\n".join(lines)
    assert "lost" not in "\n".join(lines)
    shaped = "\n".join(body(recording, assert_response_shape=True))
    assert (
        '{ "id": "number", "name": "string", "none": expect.anything(), "rows": [{ "a": "boolean" }],'
        ' "no": expect.any(Array) }' in shaped
    )
    assert "waitForResponse" not in "\n".join(body(recording))


def test_that_there_are_no_errors_is_expected_unless_some_were_recorded() -> None:
    assert "expect(errors).toEqual([]);" in body(record(act("click")), assert_no_errors=True)
    with_error = make_artefact("test", record(act("click"), fail("no")), {"assert_no_errors": True})
    assert "toEqual" not in with_error.content
    assert "1 were recorded" in with_error.content
    assert with_error.notes


def test_a_reproduction_expects_the_error_as_the_browser_says_it() -> None:
    message = "Uncaught TypeError: cannot read [redacted] of the order that was sent\n    at x"
    recording = record(act("click"), fail(message, 10), act("click", 20, selectors=Selectors(test_id="after")))
    made = make_artefact("reproduction", recording, {})
    assert '.toContain("of the order that was sent");' in made.content
    assert "after" not in made.content
    assert made.notes == ()
    unknown = make_artefact("reproduction", recording, {"error_message": "something else"})
    assert '.toContain("something else");' in unknown.content
    assert "No recorded error" in unknown.notes[0]
    assert "No error was recorded" in make_artefact("reproduction", record(act("click")), {}).notes[0]


def test_the_base_replaces_the_origin_and_nothing_else() -> None:
    recording = record(act("click"), act("navigate", 5, to_url="http://shop.test.evil/x", selectors=Selectors()))
    text = make_artefact("test", recording, {"base_url": "https://stage.test/"}).content
    assert 'const BASE = "https://stage.test";' in text
    assert 'page.waitForURL("http://shop.test.evil/x")' in text


def test_the_oldest_whole_steps_are_dropped_above_fifty_kilobytes() -> None:
    actions = [act("input", n * 10, value="v" * 90, selectors=Selectors(test_id=f"field {n}")) for n in range(900)]
    made = make_artefact("test", record(*actions), {})
    assert len(made.content.encode()) <= MOST_BYTES
    assert 'page.getByTestId("field 899").fill(' in made.content
    assert 'page.getByTestId("field 0").fill(' not in made.content
    assert all(line.endswith(("{", ";", ");", "")) for line in made.content.splitlines())
    assert "oldest" in made.notes[0]


def test_nothing_recorded_is_a_script_that_opens_the_page() -> None:
    for format in ("test", "reproduction"):
        made = make_artefact(format, record(), {})
        assert f'const BASE = "{URL.removesuffix("/orders")}";' in made.content
        assert any("No action was recorded" in note for note in made.notes)
    nothing = make_artefact("test", Recording(None, 0.0, "1"), {})
    assert 'page.goto("about:blank")' in nothing.content
