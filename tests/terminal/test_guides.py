"""Every command and every sample of the guides about toolsets and safety works as written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.serving.catalog.test_contract import PROMISED
from tests.serving.product.http import serving
from tests.terminal.conftest import Done, environment
from zorivest_rpc.mcp.protocol.session import HEADERS
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.toolsets import decode_config

GUIDES = ROOT / "docs" / "guide"
PREAMBLE = f'set -u; zorivest-rpc() {{ "{sys.executable}" -m zorivest_rpc "$@"; }}\n'


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (GUIDES / page).read_text(), re.DOTALL)


def lines(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


def run(line: str, home: Path) -> Done:
    done = subprocess.run(
        ["bash", "-c", PREAMBLE + line],
        cwd=home,
        env=environment(home),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("page", ["toolsets-and-modes.md", "safety.md"])
def test_the_commands_of_the_guide_run_from_top_to_bottom(page: str, home: Path) -> None:
    commands = lines(page)
    assert len(commands) >= 10
    for line in commands:
        done = run(line, home)
        assert done.code == 0, f"{line}\n{done.out}\n{done.err}"
        assert done.out, line
        if "stop" in line and "--as" in line:
            assert '"locked": true' in done.out
        if line.startswith("zorivest-rpc tools call get_settings ||"):
            assert "MCP guard blocked" in done.out


def test_the_toolset_file_of_the_guide_is_one() -> None:
    sample = blocks("toolsets-and-modes.md", "json")[0]
    config = decode_config(sample.encode(), "the guide", load())
    assert config.client_overrides["claude-code"] == ("all",)


async def test_the_headers_of_the_guide_narrow(home: Path) -> None:
    entry = json.loads(blocks("toolsets-and-modes.md", "json")[1])["mcpServers"]["zorivest"]
    headers = {name.replace("-", "_"): value for name, value in entry["headers"].items() if name in HEADERS}
    assert len(headers) == len(HEADERS)
    async with serving(home / "data", "--toolsets", "all") as served:
        names = await (await served.open("cursor", **headers)).names()
    assert {"get_tax_lots", "get_stock_quote", "list_trades", "zorivest_emergency_stop"} < set(names)
    assert not {"create_trade", "get_market_news", "record_quarterly_tax_payment"} & set(names)


def test_the_guide_names_every_required_tool_that_asks_first() -> None:
    text = (GUIDES / "safety.md").read_text()
    gated = {spec.name for spec in load().tools if spec.confirm} & PROMISED
    assert gated
    assert [name for name in gated if f"`{name}`" not in text] == []
