"""Headless Chromium from the npm package `@sparticuz/chromium`, driven by Playwright; no system library is needed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance import node
from tests.conformance.cache import CACHE, file_key, once

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["ARGUMENTS", "environment", "executable", "launch", "modules"]

HERE = Path(__file__).parent
ARGUMENTS = ("--no-sandbox", "--headless=shell", "--no-zygote")
# the package unpacks where the temporary directory is, so we say where that is
UNPACK = 'import("@sparticuz/chromium").then((m) => m.default.executablePath()).then(console.log)'
# the fonts of the package alone: pictures look the same on every machine, and none is needed on it
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


def modules() -> Path:
    """The `node_modules` directory with Chromium, Playwright's test runner and the validators, installed if need be."""
    return node.install(HERE, "browser/npm") / "node_modules"


def _unpacked() -> Path:
    target = CACHE / "browser" / f"chromium-{file_key([HERE / 'package-lock.json'], sys.platform)}"

    def build(directory: Path) -> None:
        done = subprocess.run(
            [str(node.node()), "--eval", UNPACK],
            cwd=modules().parent,
            env=node.environment() | {"TMPDIR": str(directory)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode or not (directory / "chromium").is_file():
            raise RuntimeError(f"@sparticuz/chromium could not be unpacked:\n{done.stdout}{done.stderr}")
        text = FONTS.format(fonts=target / "fonts" / "fonts", cache=target / "font-cache")
        (directory / "fonts.conf").write_text(text)

    return once(target, build)


def executable() -> Path:
    """The browser's executable, installed and unpacked once per clone."""
    return _unpacked() / "chromium"


def environment() -> dict[str, str]:
    """This process's environment with the fonts of the package."""
    return os.environ | {"FONTCONFIG_FILE": str(_unpacked() / "fonts.conf")}


@contextlib.asynccontextmanager
async def launch() -> AsyncIterator[Browser]:
    """Run a browser; without one this raises with the browser's own words, so that no test passes for lack of it."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable(), args=list(ARGUMENTS), env={**environment()}
        )
        try:
            yield browser
        finally:
            await browser.close()
