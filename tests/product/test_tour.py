"""All 68 tools, one after the other, over stdio against the real backend: on demo data and on an empty journal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import chosen, stale_in, stored
from tests.product.everything import every_tool
from tests.product.plain import plain_client
from zorivest_rpc.catalog.load import load
from zorivest_rpc.embedded.locate import find

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "zorivest_rpc"]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield os.environ | {"ZORIVEST_KEYRING": "off", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    located = find(tmp_path / "data")
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["demo", "empty"])
async def test_every_tool_does_real_work_or_says_honestly_why_not(
    environ: dict[str, str], journal: str, tmp_path: Path
) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    if journal == "demo":
        subprocess.run([*COMMAND, "demo", "load", *data], env=environ, check=True, timeout=60)  # noqa: ASYNC221
    server = [*COMMAND, "stdio", *data, "--toolsets", "all", "--import-root", str(tmp_path)]
    async with plain_client(server, environ, tmp_path) as client:
        await every_tool(client, tmp_path, demo=journal == "demo")
    assert client.called == {spec.name for spec in load().tools}
    if journal == "demo":
        assert stale_in(stored(), chosen(client.calls, str(tmp_path))) == [], "the examples are stale: run make docs"
