"""A configuration file with MCP servers, where the commands look for it."""

from __future__ import annotations

from pathlib import Path

TWO = """\
# my servers
[server]
port = 8800  # mine

[profiles.default]
tool_confirmation_mode = "mcp-only"

[[profiles.default.mcp_servers]]
name = "ops-tools"
endpoint = "https://mcp.example.com/ops?view=all"
auth_bearer_env = "OPS_MCP_TOKEN"
tool_allowlist = ["search_incidents", "get_runbook"]

# files, for reading only
[[profiles.default.mcp_servers]]
name = "files"
command = "mcp-files"
args = ["--root", "/srv"]

[profiles.default.mcp_servers.tool_timeouts]
slow = 90

[[profiles.default.mcp_servers]]
name = "wiki"
endpoint = "https://wiki.example.com/mcp"
enabled = false
"""


def write_local(text: str) -> Path:
    path = Path.cwd() / ".zorivest" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path
