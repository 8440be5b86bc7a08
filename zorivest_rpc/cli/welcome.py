"""What `serve --demo` says once everything is there: the address, the key, how to connect, and what to ask first."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from zorivest_rpc.app import Journal
from zorivest_rpc.errors import ToolError

__all__ = ["welcome"]

ASK = (
    "How did my last month of trading go, and what did it cost me?",
    "Which mistakes cost me the most this year, and what is the trend?",
    "If I sold 50 AAPL today, which lots would go and what would the tax be?",
)


async def welcome(journal: Journal, url: str, out: TextIO = sys.stderr) -> None:
    """Load the demo data and explain; the key itself is shown on a terminal alone, never in a log or a pipe."""
    try:
        loaded = await journal.load_demo()
    except ToolError as error:
        print(f"The demo data could not be loaded: {error.text}", file=out)
        return
    print(f"\nThe demo journal is {loaded}. `zorivest-rpc demo remove` takes it out again.", file=out)
    header = _header(journal, out)
    command = os.path.join(os.path.dirname(sys.executable), "zorivest-rpc")
    print("\nConnect a client, either over stdio (it starts the server itself):\n", file=out)
    print(f"  {command} install claude-code    # or cursor, vscode, windsurf, gemini-cli, codex, zed, …", file=out)
    print("\nor to this address:\n", file=out)
    flag = f' --header "Authorization: {header}"' if header else ""
    print(f"  claude mcp add --transport http zorivest {url}{flag}", file=out)
    headers = f', "headers": {{"Authorization": "{header}"}}' if header else ""
    print(f'  Cursor, Windsurf: {{"mcpServers": {{"zorivest": {{"url": "{url}"{headers}}}}}}}', file=out)
    print(f'  VS Code: {{"servers": {{"zorivest": {{"type": "http", "url": "{url}"{headers}}}}}}}', file=out)
    print("\nThen ask, for example:\n", file=out)
    for question in ASK:
        print(f"  - {question}", file=out)
    print("\nStop with Ctrl-C; the journal stays.", file=out)
    out.flush()


def _header(journal: Journal, out: TextIO) -> str | None:
    """The Authorization header to show: the key on a terminal, else where it is."""
    if journal.settings.no_auth:
        return None
    key = journal.own_key()
    if key and out.isatty():
        print(f"\nYour key: {key}\nIt opens the journal; it is shown here and stored for you, nowhere else.", file=out)
        return f"Bearer {key}"
    print(f"\nYour key is stored for you in {journal.settings.data_dir}; it is not printed here.", file=out)
    return "Bearer <your key>"
