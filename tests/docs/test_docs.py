"""The documentation says what is there: references are current, links lead somewhere, options and tools are named."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.__main__ import CONFIG, VARIABLES, help_of, stale, verbs_of
from tests.places import ROOT
from tests.test_layers import ROOMS
from zorivest_rpc.__main__ import COMMANDS
from zorivest_rpc.cli.checks import surroundings
from zorivest_rpc.config import OPTIONS, parse
from zorivest_rpc.gateway.keys import PROFILE_KEYS, SERVER_KEYS
from zorivest_rpc.serving.catalog.load import load, with_tenancy
from zorivest_rpc.serving.tools.prompts import ARGUMENTS


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_generated_references_are_current() -> None:
    assert [path.name for path, _ in stale()] == [], "run make docs"


def test_every_relative_link_leads_to_a_file() -> None:
    assert [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ] == []


def test_every_anchor_leads_to_a_heading() -> None:
    def anchors(page: Path) -> set[str]:
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    links = [
        (page, page.parent / target if target else page, anchor)
        for page in pages()
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
    ]
    assert len(links) > 10
    assert [f"{page.name}: {to.name}#{anchor}" for page, to, anchor in links if anchor not in anchors(to)] == []


def test_the_rooms_of_the_architecture_are_those_that_the_imports_keep() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    (drawn,) = re.findall(r"```\n(errors, proof, core_dumps, private_files, retry_after\n.*?)```", page, re.DOTALL)
    rows = [tuple(line.split(", ")) for line in drawn.splitlines()]
    assert rows == [row for row in ROOMS if row != ("__main__",)]


def test_every_variable_is_in_the_reference() -> None:
    used = {
        name
        for file in (ROOT / "zorivest_rpc").rglob("*.py")
        for name in re.findall(r'"(ZORIVEST_\w+)"', file.read_text())
    }
    assert set(VARIABLES) == set(surroundings._OTHERS)
    assert used <= set(VARIABLES) | {option.variable for option in OPTIONS}


def test_the_sample_of_a_configuration_file_is_one(tmp_path: Path) -> None:
    file = tmp_path / "zorivest.toml"
    file.write_text(CONFIG)
    for command in ("stdio", "serve", "tools"):
        settings = parse(command, ["--config", str(file)], {"HOME": str(tmp_path)})
        assert (settings.toolsets, settings.read_only) == ("default,tax", True)
        assert (settings.exclude_tools, settings.port) == (("sync_broker", "run_pipeline"), 8800)


def test_every_verb_with_a_help_of_its_own_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert verbs_of("backup") == ["create", "list", "restore"]
    assert verbs_of("keys") == ["list", "create", "revoke", "passphrase"]
    for command in COMMANDS:
        for verb in verbs_of(command):
            assert help_of(command, verb) in page


def test_every_option_that_the_docs_name_exists() -> None:
    known = {option.flag for option in OPTIONS}
    of_commands = {"--json", "--as", "--json-args", "--help", "--start", "--dry-run", "--name", "--http"}
    of_keys_and_backend = {
        "--label",
        "--role",
        "--expires-in",
        "--store",
        "--idle-exit",
        "--passphrase",
        "--stop",
        "--reason",
    }
    of_connect = {"--rate-limit", "--timeout", "--no-test", "--stdin-json"}
    of_connect |= {"--preset", "--host", "--port", "--security", "--username", "--from"}
    of_mcp = {"--server", "--url", "--timeout-secs"}
    of_tenants = {"--tenant", "--embedded", "--key-env", "--clients", "--seat"}
    names = ("architecture.md", "rough-edges.md", "changelog.md", "index.md", "reference/errors.md")
    for page in (ROOT / "README.md", *(ROOT / "docs" / name for name in names), *(ROOT / "docs/guide").glob("*.md")):
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()):
            assert flag in known | of_commands | of_keys_and_backend | of_connect | of_mcp | of_tenants, (
                f"{page.name}: {flag}"
            )


def test_the_map_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)\)", (ROOT / "docs" / "index.md").read_text()))
    there = {str(page.relative_to(ROOT / "docs")) for page in pages()[1:]} - {"index.md"}
    assert {page for page in there if not page.startswith("decisions/")} <= linked


def test_every_tool_and_prompt_that_the_guides_name_exists() -> None:
    definitions = with_tenancy(load())
    known = {spec.name for spec in (*definitions.tools, *definitions.meta_tools)} | set(ARGUMENTS)
    verbs = "|".join(sorted({name.partition("_")[0] for name in known}))
    known |= {key.name for key in (*PROFILE_KEYS, *SERVER_KEYS)}
    for page in (ROOT / "README.md", *(ROOT / "docs/guide").glob("*.md"), ROOT / "docs/rough-edges.md"):
        text = page.read_text()
        for name in re.findall(rf"`((?:{verbs})_[a-z_]+)`", text) + re.findall(r"tools (?:call|show) ([a-z_]+)", text):
            assert name in known or name == "zorivest_uptime_seconds", f"{page.name}: {name}"


def test_the_changelog_names_every_command() -> None:
    text = (ROOT / "docs" / "changelog.md").read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in text] == []


def test_every_make_target_that_the_docs_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        for target in re.findall(r"`?make ([a-z][a-z-]+)(?=[`\s])", page.read_text()):
            if f"`make {target}" in page.read_text() or f"\nmake {target}" in page.read_text():
                assert target in targets, f"{page.name}: make {target}"


def test_every_test_that_the_protocol_matrix_names_exists() -> None:
    matrix = ROOT / "docs" / "reference" / "protocol-support.md"
    named = set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", matrix.read_text()))
    assert named
    for file, function in named:
        source = ROOT / file
        assert source.exists(), file
        if function:
            assert f"def {function}(" in source.read_text(), f"{file}::{function}"
