"""Runs scripts with npm's own Playwright test runner, and artefacts through the validators of their formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from jsonschema.validators import validator_for

from tests.browser import chromium
from tests.conformance import node
from tests.interop.environments import python_with

__all__ = ["check_har", "check_openapi", "check_sarif", "run_scripts", "sarif_problems"]

CONFIG = """export default {{
  reporter: [["json", {{ outputFile: "report.json" }}]], outputDir: "out",
  workers: 2, fullyParallel: true, timeout: 90000,
  use: {{ launchOptions: {{ executablePath: {executable}, args: {arguments}, env: {environment} }} }},
}};
"""
HAR = """
const { har } = require("har-validator");
har(JSON.parse(require("fs").readFileSync(0, "utf8"))).then(() => console.log("valid"),
  (error) => { console.log(JSON.stringify(error.errors)); process.exit(1); });
"""


async def _run(command: list[str], directory: Path, data: bytes = b"", more: Mapping[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=node.environment() | {"FONTCONFIG_FILE": chromium.environment()["FONTCONFIG_FILE"], **(more or {})},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(300):
        output, _ = await process.communicate(data)
    return output.decode()


async def run_scripts(
    directory: Path, scripts: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> dict[str, tuple[str, str]]:
    """By the title of each test: its outcome ("passed", "failed", …) and what was said of it."""
    modules = await asyncio.to_thread(chromium.modules)
    (directory / "node_modules").symlink_to(modules)
    (directory / "package.json").write_text('{"type": "module"}')
    config = CONFIG.format(
        executable=json.dumps(str(chromium.executable())),
        arguments=json.dumps(list(chromium.ARGUMENTS)),
        environment=json.dumps({"FONTCONFIG_FILE": chromium.environment()["FONTCONFIG_FILE"]}),
    )
    (directory / "playwright.config.js").write_text(config)
    for name, text in scripts.items():
        (directory / f"{name}.spec.ts").write_text(text)
    cli = modules / "@playwright" / "test" / "cli.js"
    said = await _run([str(node.node()), str(cli), "test"], directory, more=variables)
    report = directory / "report.json"
    if not report.is_file():
        raise AssertionError(f"the runner wrote no report:\n{said}")
    whole = json.loads(report.read_bytes())
    errors = "\n".join(error.get("message", "") for error in whole["errors"])
    assert not errors, errors
    outcomes: dict[str, tuple[str, str]] = {}
    for suite in whole["suites"]:
        for spec in suite["specs"]:
            result = spec["tests"][0]["results"][-1]
            text = "\n".join(error.get("message", "") for error in result["errors"])
            outcomes[spec["title"]] = (result["status"], text)
    return outcomes


async def check_har(text: str) -> None:
    """By npm's `har-validator`, which has the published schemas."""
    modules = await asyncio.to_thread(chromium.modules)
    said = await _run([str(node.node()), "--eval", HAR], modules.parent, text.encode())
    assert said.strip() == "valid", said


async def check_openapi(text: str, directory: Path) -> None:
    """By PyPI's `openapi-spec-validator`, in an environment of its own."""
    interpreter = await asyncio.to_thread(python_with, "openapi", Path(__file__).parent)
    path = directory / "openapi.yaml"
    path.write_text(text)
    said = await _run([str(interpreter), "-m", "openapi_spec_validator", str(path)], directory)
    assert said.strip().endswith("OK"), said


def sarif_problems(text: str) -> list[str]:
    """What the published schema, which comes with Microsoft's `sarif` tool, has against it."""
    path = chromium.modules() / "@microsoft" / "sarif-multitool-linux" / "sarif-2.1.0.json"
    schema = json.loads(path.read_bytes().decode("utf-8-sig"))
    judge = validator_for(schema)
    return [f"{error.json_path}: {error.message}" for error in judge(schema).iter_errors(json.loads(text))]


async def check_sarif(text: str, directory: Path) -> None:
    """By the published schema, and by the tool itself: it reads the file, and in this build judges its syntax alone."""
    assert await asyncio.to_thread(sarif_problems, text) == []
    modules = await asyncio.to_thread(chromium.modules)
    tool = modules / "@microsoft" / "sarif-multitool-linux" / "Sarif.Multitool"
    tool.chmod(0o755)  # what its install script does, which `npm ci --ignore-scripts` leaves out
    given, found = directory / "given.sarif", directory / "found.sarif"
    given.write_text(text)
    command = [str(tool), "validate", str(given), "--output", str(found), "--log", "ForceOverwrite"]
    said = await _run(command, directory, more={"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"})
    if not found.is_file():
        raise AssertionError(f"sarif-multitool wrote nothing:\n{said}")
    results = json.loads(found.read_bytes().decode("utf-8-sig"))["runs"][0].get("results") or []
    assert results == [], said
