"""Where each client's file is, platform by platform, without a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from zorivest_rpc.clients.entries import CLIENTS
from zorivest_rpc.clients.places import Place, choose, places

LINUX = {"HOME": "/home/ann"}
MAC = {"HOME": "/Users/ann"}
WINDOWS = {
    "USERPROFILE": r"C:\Users\ann",
    "APPDATA": r"C:\Users\ann\AppData\Roaming",
    "LOCALAPPDATA": r"C:\Users\ann\AppData\Local",
}
CLINE = "saoudrizwan.claude-dev"
TABLE = [
    ("claude-code", "linux", LINUX, ["/home/ann/.claude.json"]),
    ("claude-code", "darwin", MAC, ["/Users/ann/.claude.json"]),
    ("claude-code", "win32", WINDOWS, [r"C:\Users\ann\.claude.json"]),
    ("claude-code", "linux", LINUX | {"CLAUDE_CONFIG_DIR": "/srv/claude"}, ["/srv/claude/.claude.json"]),
    ("claude-desktop", "linux", LINUX, ["/home/ann/.config/Claude/claude_desktop_config.json"]),
    ("claude-desktop", "darwin", MAC, ["/Users/ann/Library/Application Support/Claude/claude_desktop_config.json"]),
    (
        "claude-desktop",
        "win32",
        WINDOWS,
        [
            r"C:\Users\ann\AppData\Local\Packages\Claude_*\LocalCache\Roaming\Claude\claude_desktop_config.json",
            r"C:\Users\ann\AppData\Roaming\Claude\claude_desktop_config.json",
        ],
    ),
    ("cursor", "linux", LINUX, ["/home/ann/.cursor/mcp.json"]),
    ("cursor", "darwin", MAC, ["/Users/ann/.cursor/mcp.json"]),
    ("cursor", "win32", WINDOWS, [r"C:\Users\ann\.cursor\mcp.json"]),
    ("vscode", "linux", LINUX, ["/home/ann/.config/Code/User/mcp.json"]),
    ("vscode", "linux", LINUX | {"XDG_CONFIG_HOME": "/cfg"}, ["/cfg/Code/User/mcp.json"]),
    ("vscode", "darwin", MAC, ["/Users/ann/Library/Application Support/Code/User/mcp.json"]),
    ("vscode", "win32", WINDOWS, [r"C:\Users\ann\AppData\Roaming\Code\User\mcp.json"]),
    ("windsurf", "linux", LINUX, ["/home/ann/.codeium/windsurf/mcp_config.json"]),
    ("windsurf", "darwin", MAC, ["/Users/ann/.codeium/windsurf/mcp_config.json"]),
    ("windsurf", "win32", WINDOWS, [r"C:\Users\ann\.codeium\windsurf\mcp_config.json"]),
    ("gemini-cli", "linux", LINUX, ["/home/ann/.gemini/settings.json"]),
    ("gemini-cli", "darwin", MAC, ["/Users/ann/.gemini/settings.json"]),
    ("gemini-cli", "win32", WINDOWS, [r"C:\Users\ann\.gemini\settings.json"]),
    ("codex", "linux", LINUX, ["/home/ann/.codex/config.toml"]),
    ("codex", "darwin", MAC | {"CODEX_HOME": "/opt/codex"}, ["/opt/codex/config.toml"]),
    ("codex", "win32", WINDOWS, [r"C:\Users\ann\.codex\config.toml"]),
    (
        "cline",
        "linux",
        LINUX,
        [
            "/home/ann/.cline/data/settings/cline_mcp_settings.json",
            f"/home/ann/.config/Code/User/globalStorage/{CLINE}/settings/cline_mcp_settings.json",
            "/home/ann/.cline/data/settings/cline_mcp_settings.json",
        ],
    ),
    (
        "cline",
        "darwin",
        MAC,
        [
            "/Users/ann/.cline/data/settings/cline_mcp_settings.json",
            f"/Users/ann/Library/Application Support/Code/User/globalStorage/{CLINE}/settings/cline_mcp_settings.json",
            "/Users/ann/.cline/data/settings/cline_mcp_settings.json",
        ],
    ),
    (
        "cline",
        "win32",
        WINDOWS,
        [
            r"C:\Users\ann\.cline\data\settings\cline_mcp_settings.json",
            rf"C:\Users\ann\AppData\Roaming\Code\User\globalStorage\{CLINE}\settings\cline_mcp_settings.json",
            r"C:\Users\ann\.cline\data\settings\cline_mcp_settings.json",
        ],
    ),
    ("cline", "linux", LINUX | {"CLINE_MCP_SETTINGS_PATH": "/x/m.json"}, ["/x/m.json"]),
    (
        "opencode",
        "linux",
        LINUX,
        ["/home/ann/.config/opencode/opencode.jsonc", "/home/ann/.config/opencode/opencode.json"],
    ),
    (
        "opencode",
        "darwin",
        MAC,
        ["/Users/ann/.config/opencode/opencode.jsonc", "/Users/ann/.config/opencode/opencode.json"],
    ),
    (
        "opencode",
        "win32",
        WINDOWS,
        [r"C:\Users\ann\.config\opencode\opencode.jsonc", r"C:\Users\ann\.config\opencode\opencode.json"],
    ),
    ("zed", "linux", LINUX, ["/home/ann/.config/zed/settings.json"]),
    ("zed", "linux", LINUX | {"XDG_CONFIG_HOME": "/cfg"}, ["/cfg/zed/settings.json"]),
    ("zed", "darwin", MAC, ["/Users/ann/.config/zed/settings.json"]),
    ("zed", "win32", WINDOWS, [r"C:\Users\ann\AppData\Roaming\Zed\settings.json"]),
]


@pytest.mark.parametrize(("client", "platform", "environ", "expected"), TABLE)
def test_the_file_of_each_client_on_each_platform(
    client: str, platform: str, environ: dict[str, str], expected: list[str]
) -> None:
    assert [place.path for place in places(client, platform, environ)] == expected


def test_the_table_covers_every_client_on_every_platform() -> None:
    covered = {(client, platform) for client, platform, _, _ in TABLE}
    assert covered == {(client.id, platform) for client in CLIENTS for platform in ("linux", "darwin", "win32")}


def test_every_last_place_counts_always() -> None:
    for client in CLIENTS:
        for platform, environ in (("linux", LINUX), ("darwin", MAC), ("win32", WINDOWS)):
            assert places(client.id, platform, environ)[-1].when == "always"


def test_a_packaged_app_is_preferred_even_before_it_wrote_its_file(tmp_path: Path) -> None:
    (tmp_path / "Packages" / "Claude_abc").mkdir(parents=True)
    usual = tmp_path / "usual.json"
    usual.write_text("{}")
    packaged = str(tmp_path / "Packages" / "Claude_*" / "LocalCache" / "c.json")
    found = choose((Place(packaged, "directory", str(tmp_path / "Packages" / "Claude_*")), Place(str(usual))))
    assert found == str(tmp_path / "Packages" / "Claude_abc" / "LocalCache" / "c.json")


def test_an_existing_older_file_wins_over_a_newer_place_that_is_empty(tmp_path: Path) -> None:
    older = tmp_path / "older.json"
    older.write_text("{}")
    newer = str(tmp_path / "newer.json")
    assert choose((Place(newer, "file"), Place(str(older), "file"), Place(newer))) == str(older)
