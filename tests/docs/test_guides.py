"""Every command and every sample of the guides works as written.

A `sh` block is run, a `json` or `toml` block is read, a `text` block is for the eye: what only a person, a terminal of
its own or another program can do. There is no other kind in a guide."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.docs.shell import Machine, blocks, machine
from tests.places import ROOT
from zorivest_rpc.config import parse
from zorivest_rpc.config_file import ConfigFile
from zorivest_rpc.embedded.brokers.sync import ADDRESSES
from zorivest_rpc.embedded.market.providers import PROVIDERS
from zorivest_rpc.gateway.assignment import assign
from zorivest_rpc.gateway.config import load_profile
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.jsonrpc import dumps
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.tools.prompts import shelf

GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
README = ROOT / "README.md"
FIRST, OPERATIONS, IMPORTING, MARKET, GATEWAY, TENANTS, EXPOSURE, DEVTOOLS = (
    ROOT / "docs" / "guide" / f"{name}.md"
    for name in (
        "first-ten-minutes",
        "operations",
        "importing",
        "market-data",
        "gateway",
        "tenants",
        "exposure",
        "devtools",
    )
)
RUN_ELSEWHERE = {
    "connect-a-client.md": "tests/cli/test_guide.py",
    "embedded-backend.md": "tests/embedded/test_guide.py",
    "safety.md": "tests/terminal/test_guides.py",
    "scheduling.md": "tests/embedded/scheduling/test_guide.py",
    "taxes.md": "tests/embedded/tax/test_guide.py",
    "toolsets-and-modes.md": "tests/terminal/test_guides.py",
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for all pages: no page needs what another one left, and its backend starts once."""
    with machine(tmp_path_factory.mktemp("reader") / "home") as made:
        yield made


def test_the_first_ten_minutes_run_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(FIRST)
    assert 'Cursor: "zorivest"' in said
    assert "loaded: 68 trades" in said
    assert ", 0 failed" in said
    assert '"status": "created"' in said
    assert '"caption": "the entry"' in said
    assert '"strategy_name": "breakout"' in said
    assert '"category": "chasing"' in said
    assert "removed: 68 trades" in said
    restored = said[said.index("removed: 68 trades") :]
    assert '"exec_id": "FIRST-1"' in restored
    assert '"image_count": 1' in restored
    assert '"total": 1,' in restored


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, which this machine lacks")
def test_the_operations_run_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(OPERATIONS)
    assert '{"status":"ok","version":' in said
    assert said.count('{"ready":true}') == 3
    assert 'zorivest_tool_calls_total{tool="calculate_position_size"} 1' in said
    assert '"protocolVersion":"2025-11-25"' in said
    assert '{"jsonrpc":"2.0","id":2,"result":{}}' in said, "the session goes on after kill -9"
    assert '"locked": true' in said
    assert said.count('"com.zorivest/error":{"class":"guard","code":"guard_blocked"') == 1
    assert '"locked": false' in said
    assert reader.secrets()
    assert not any(secret in said for secret in reader.secrets())


def test_importing_runs_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(IMPORTING)
    assert '"status": "PARTIAL"' in said
    assert "is neither a buy nor a sale" in said
    assert '"duplicates_skipped": 3' in said
    assert '"transaction_count": 2' in said
    assert '"broker_id": "local_folder"' in said
    assert "Interactive Brokers Pro: stored\n" in said
    assert "000000000000000000000000" not in said


def test_market_data_runs_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(MARKET)
    assert "provider  nasdaq_data_link  no " in said
    assert "Finnhub: stored\nSEC EDGAR: stored\n" in said
    assert "not tried: market.offline is set" in said
    assert '"status": "removed"' in said
    assert '"provider": "local"' in said
    assert "no quote, as it should be" in said
    assert '"status": "invalid"' in said
    assert "not-a-real-key" not in said


def test_other_servers_are_set_up_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(GATEWAY)
    assert '"demo" added in ' in said
    assert "profile default: 1 enabled MCP server " in said
    assert "        echo          demo__echo          confirm\n" in said
    assert '"schema": "zorivest.mcp.discover.v1"' in said
    assert "nothing to pin\n" in said
    merged = said[said.index("nothing to pin\n") :]
    assert (
        merged.index("\nlist_trades ") < merged.index("\ndemo__echo ") < merged.index(" tools as Claude Code sees them")
    )
    assert '"memory" would be added in ' in said
    assert '"demo" removed in ' in said
    assert "profile default: no enabled MCP servers\n" in said
    assert "Cursor: " in said


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, which this machine lacks")
def test_one_client_becomes_ten_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(TENANTS)
    assert "clients.toml: 1 client, 0 access keys\n" in said
    assert "key ACME_KEY: set" in said
    assert said.count("The key, shown this once:\nzrv_ak_") == 4
    assert '{"id":"smith","name":"Family Smith","description":null,"readOnly":false}' in said
    assert said.count('"com.zorivest/client":{"id":"smith","name":"Family Smith"}') == 1
    assert 'Unknown client ID: \\"acme\\". Available clients: smith.' in said
    assert "clientId is required. Available clients: smith." in said
    assert "a key is needed: " in said, "the revoked one is none"
    assert "CLIENTS_CONFIG: 2 clients, 3 access keys\n" in said
    assert "clients.toml: 9 clients, 3 access keys\n" in said
    assert "loaded: 68 trades" in said
    assert 'from here on: "smith", embedded' in said
    assert "The guard is locked by a person" in said
    assert '"total": 68,' in said
    assert 'access key "desk-1" removed in ' in said
    assert "server, autumn" in said
    assert "restored " in said
    assert not any(secret in said for secret in reader.secrets())


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, which this machine lacks")
def test_a_page_is_observed_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(DEVTOOLS)
    tag = f'<script src="http://127.0.0.1:{reader.port}/devtools/collector.js?k=zdk_'
    assert said.count(tag) == 2, "printed, and in the page"
    assert "Open http://127.0.0.1:" in said
    images = re.findall(r"\]\((images/[^)]*)\)", DEVTOOLS.read_text())
    assert len(images) == 2
    assert all((DEVTOOLS.parent / image).read_bytes().startswith(b"\x89PNG") for image in images)


def test_lists_that_follow_the_data_are_shown_from_top_to_bottom(reader: Machine) -> None:
    said = " ".join(reader.run(EXPOSURE).split())
    assert "tools as Cline sees them" in said
    assert "get_sqn is " in said, "what it says of the figure depends on what the other pages left"
    assert "It is left out of the list until devtools.observed is raised by a first successful call." in said


def test_from_nothing_to_a_merged_list_are_five_commands() -> None:
    first = next(block.inside for block in blocks(GATEWAY) if block.language == "sh")
    assert [" ".join(line.split()[1:3]) for line in first.splitlines()] == [
        "mcp add", "mcp list", "mcp discover", "mcp pin", "tools list",
    ]  # fmt: skip


def test_the_guide_shows_the_profile_that_the_tests_load() -> None:
    sample, several = [block.inside for block in blocks(GATEWAY) if block.language == "toml"]
    assert sample == (ROOT / "tests" / "gateway" / "fixtures" / "example.toml").read_text()
    file = ConfigFile("guide.toml", tomllib.loads(several), several.encode())
    settings = parse("mcp", [], {})._replace(file=file)
    assigned = assign(load_profile(settings), ("acme", "smith", "third"))
    assert assigned.hidden_from("third") == {"mcp-risk", "mcp-tickets"}
    assert {id: part.mcp_servers[0].auth_bearer_env for id, part in assigned.own.items()} == {
        "acme": "ACME_TICKETS",
        "smith": "SMITH_TICKETS",
    }


def test_the_addresses_that_the_guide_names_are_all_there_are() -> None:
    page = MARKET.read_text()
    named = set(re.findall(r"`([a-z_]+)`", page[page.index("The names are the") :])) - {"slug"}
    providers = {provider.slug for provider in PROVIDERS}
    hosts = {f"{provider.slug}_{host}" for provider in PROVIDERS for host in provider.hosts}
    assert named == providers | hosts | {name for name, _ in ADDRESSES.values()}


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page uses curl, which this machine lacks")
def test_the_readme_s_commands_run_from_top_to_bottom(reader: Machine) -> None:
    said = reader.run(README)
    assert '"share_size": 125' in said
    assert "list_trades" in said
    assert '{"ready":true}' in said
    assert '"protocolVersion":"2025-11-25"' in said


def test_no_page_of_the_guide_is_without_a_test() -> None:
    assert {page.name for page in GUIDES} == {
        FIRST.name,
        OPERATIONS.name,
        IMPORTING.name,
        MARKET.name,
        GATEWAY.name,
        TENANTS.name,
        EXPOSURE.name,
        DEVTOOLS.name,
        *RUN_ELSEWHERE,
    }
    for name, test in RUN_ELSEWHERE.items():
        assert name in (ROOT / test).read_text()


@pytest.mark.parametrize("page", [README, *GUIDES], ids=lambda page: page.name)
def test_every_block_is_run_or_read_or_plainly_text(page: Path) -> None:
    for block in blocks(page):
        assert block.language in ("sh", "json", "toml", "text"), block
        if block.language == "json":
            json.loads(block.inside)
        elif block.language == "toml":
            tomllib.loads(block.inside)
        elif block.language == "sh":
            for inside in re.findall(r"<<'JSON'\n(.*?)^JSON$", block.inside, re.DOTALL | re.MULTILINE):
                json.loads(inside)


async def test_the_weekly_review_is_told_as_the_prompt_has_it() -> None:
    page = FIRST.read_text()
    section = page[page.index("## 8.") : page.index("## 9.")]
    told = re.findall(r"`((?:get|list|zorivest)_\w+)`", section[: section.index("and then write")])
    prompts = {prompt.name: prompt for prompt in shelf().visible(cast(Session, None))}
    said = dumps(list(await prompts["weekly_review"].get(cast(Call, SimpleNamespace(arguments={}))))).decode()
    steps = re.findall(r"\\n\d\. (.*?)(?=\\n)", said)
    named = [tool for step in steps for tool in re.findall(r"`(\w+)`", step)]
    assert told == [tool for tool in named if tool != "sync_broker"], "that one is offered, not called"
    assert all(f"`{name}`" in section for name in prompts)
