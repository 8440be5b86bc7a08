"""Artefacts of a real page, judged by the tools that read them: the scripts are run, the files are validated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.runner import check_har, check_sarif, run_scripts, sarif_problems
from tests.devtools.page.record import recording_of, serve_demo
from tests.devtools.page.server import FrameServer
from zorivest_rpc.devtools.generate import make_artefact

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_was_done_on_the_demo_page_is_done_again_by_its_scripts(
    server: FrameServer, page: Page, tmp_path: Path
) -> None:
    async with serve_demo(server) as address:
        await page.goto(address)
        await server.until(lambda: server.frames)
        await page.locator("[name=symbol]").press_sequentially("ACME")
        await page.locator("[name=quantity]").fill("12")
        await page.get_by_label("Side").press("ArrowDown")
        await page.get_by_label("Password").fill("hunter22")
        await page.get_by_test_id("send").click()
        await page.get_by_role("button", name="Get quote").click()
        await page.get_by_role("link", name="History").click()
        await page.evaluate("document.querySelector('#answer').textContent.length")
        await server.item("action", type="navigate")
        await server.until(lambda: len(server.items("request")) >= 3)
        clean = recording_of(server)
        await page.get_by_role("button", name="Show profit").click()
        await server.until(lambda: [item for item in server.items("log") if item["level"] == "error"])
        broken = recording_of(server)
        options = {"assert_network": True, "assert_no_errors": True, "assert_response_shape": True}
        test = make_artefact("test", clean, options | {"test_name": "an order is sent"})
        again = make_artefact("test", broken, {"test_name": "with an error", "assert_no_errors": True})
        reproduction = make_artefact("reproduction", broken, {})
        assert test.notes == ()
        for wanted in (
            'page.locator("css=#order > fieldset > input:nth-of-type(1)").fill("ACME");',
            'page.getByRole("combobox", { name: "Side", exact: true }).selectOption("sell");',
            'fill(process.env.ZV_INPUT_1 ?? "");',
            'page.getByTestId("send").click();',
            'page.waitForURL(BASE + "/#history");',
        ):
            assert wanted in test.content, test.content
        assert test.content.index("const response") < test.content.index(".click();")
        assert "hunter22" not in test.content + reproduction.content
        assert "Errors were recorded" in again.notes[0]
        scripts = {"test": test.content, "again": again.content, "reproduction": reproduction.content}
        wrong = reproduction.content.replace("reading 'profit'", "reading 'loss'").replace(
            "reproduces", "does not find"
        )
        outcomes = await run_scripts(tmp_path, scripts | {"wrong": wrong}, {"ZV_INPUT_1": "from outside"})
    passed = {title: said for title, (status, said) in outcomes.items() if status != "passed"}
    assert len(outcomes) == 4
    assert list(passed) == [title for title in outcomes if title.startswith("does not find")], passed


async def test_the_archive_and_the_report_fit_their_published_schemas(
    server: FrameServer, page: Page, tmp_path: Path
) -> None:
    async with serve_demo(server) as address:
        await page.goto(address)
        await server.until(lambda: server.live)
        for name in ("Send order", "Get quote", "Lost page"):
            await page.get_by_role("button", name=name).click()
        await server.until(lambda: len(server.items("request")) >= 4)
        audit = (await server.ask("a", "a11y", {"include_passes": True}, 30000))["data"]
        assert audit["engine"] == "axe-core"
        recording = recording_of(server, audit)
    har = make_artefact("har", recording, {})
    assert '"not-for-your-eyes"' not in har.content
    await check_har(har.content)
    sarif = make_artefact("sarif", recording, {"include_passes": True})
    await check_sarif(sarif.content, tmp_path)
    assert sarif_problems(sarif.content.replace('"level": "error"', '"level": "bad"')) != []
    empty = make_artefact("har", recording, {"status_min": 599})
    await check_har(empty.content)
    assert empty.notes


HOSTILE = "\"); process.exit(1); // */ </script> `${1}` \\ \u2028 \x85 \u202e '\n new line"


async def test_what_a_page_says_stays_text_in_a_script_and_each_script_stays_one_test(
    server: FrameServer, page: Page, tmp_path: Path
) -> None:
    server.pages["/hostile"] = """<title>hostile</title>COLLECTOR<button></button><input><button id=b></button><script>
      const [one, two] = document.querySelectorAll("button"); const field = document.querySelector("input");
      const text = TEXT; one.dataset.testid = text; field.ariaLabel = text; two.id = text;
      one.onclick = () => { console.error(text); fetch("/echo?x=" + encodeURIComponent(text)); };
    </script>""".replace("TEXT", json.dumps(HOSTILE).replace("</", "<\\/"))
    await page.goto(server.origin + "/hostile")
    await server.until(lambda: server.frames)
    await page.locator("input").fill(HOSTILE.replace("\n", " "))
    await page.locator("button").nth(1).click()
    await page.locator("button").nth(0).click()
    await server.item("request")
    recording = recording_of(server)
    options = {"assert_network": True, "assert_no_errors": True, "test_name": HOSTILE[:60]}
    test = make_artefact("test", recording, options)
    reproduction = make_artefact("reproduction", recording, {"error_message": HOSTILE})
    for line in (*test.content.split("\n"), *reproduction.content.split("\n")):
        assert not set(line) & set("\u2028\u2029\x85\u202e\r")
    outcomes = await run_scripts(tmp_path, {"test": test.content, "reproduction": reproduction.content})
    assert [status for status, _ in outcomes.values()] == ["passed", "passed"], outcomes
