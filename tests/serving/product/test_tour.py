"""All tools, one after the other, over stdio against the real backend: on demo data and on an empty journal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.docs.examples import chosen, stale_in, stored
from tests.places import ROOT
from tests.serving.product.everything import Caller, every_tool
from tests.serving.product.plain import plain_client
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.serving.catalog.load import load

SPECS = {spec.name: spec for spec in load().tools}
COMMAND = [sys.executable, "-m", "zorivest_rpc"]


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield os.environ | {"ZORIVEST_KEYRING": "off", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    located = find(tmp_path / "data")
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


def problems_of(name: str, result: dict[str, Any]) -> list[str]:
    """Where a result does not fit the schema in its tool's file; of a list the schema is that of the list itself."""
    schema = SPECS[name].output_schema
    assert schema is not None, name
    value = result.get("structuredContent", {"items": result["content"]})
    judged = value["items"] if schema["type"] == "array" else value
    return [f"{name} {error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(judged)]


async def read_everything(client: Caller) -> None:
    """Every tool that only reads, with as little as it takes, on a journal into which nothing was written yet."""
    for spec in SPECS.values():
        if spec.reads_only and not spec.network_bound:
            given = dict.fromkeys(spec.input_schema.get("required", ()), "NONE")
            await client.call(spec.name, **given)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["demo", "empty"])
@pytest.mark.parametrize("results", ["detailed", "concise"])
async def test_every_tool_does_real_work_or_says_honestly_why_not(
    environ: dict[str, str], journal: str, results: str, tmp_path: Path
) -> None:
    data = ["--data-dir", str(tmp_path / "data")]
    if journal == "demo":
        subprocess.run([*COMMAND, "demo", "load", *data], env=environ, check=True, timeout=60)  # noqa: ASYNC221
    server = [*COMMAND, "stdio", *data, "--toolsets", "all", "--import-root", str(tmp_path)]
    server += [] if results == "detailed" else ["--client-mode", "dynamic", "--confirm", "never"]
    name = "claude-code" if results == "detailed" else "cursor"
    async with plain_client(server, environ, tmp_path, name) as client:
        if results == "concise":
            await read_everything(client)
        await every_tool(client, tmp_path, demo=journal == "demo")
    assert client.called == set(SPECS)
    good = [(name, result) for name, _, result in client.calls if not result.get("isError")]
    assert [problem for name, result in good for problem in problems_of(name, result)] == []
    if (journal, results) == ("demo", "detailed"):
        assert stale_in(stored(), chosen(client.calls, str(tmp_path))) == [], "the examples are stale: run make docs"
