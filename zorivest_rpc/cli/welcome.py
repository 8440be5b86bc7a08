"""What `serve --demo` says once everything is there: the address, the key, how to connect, and what to ask first."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import Any, TextIO

from zorivest_rpc.app import Journal
from zorivest_rpc.clients.command import own_command
from zorivest_rpc.clients.entries import CLIENTS, Client, Launch
from zorivest_rpc.config import Settings, default_data_dir
from zorivest_rpc.errors import ToolError

__all__ = ["tell_founding", "welcome"]

ASK = (
    "How did my last month of trading go, and what did it cost me?",
    "Which mistakes cost me the most this year, and what is the trend?",
    "If I sold 50 XLE today, which lots would go and what would the tax be?",
)
_BY_ADDRESS = ("cursor", "vscode", "windsurf", "gemini-cli")


async def welcome(journal: Journal, url: str, out: TextIO = sys.stderr) -> None:
    """Load the demo data and explain; the key itself is shown on a terminal alone, never in a log or a pipe."""
    try:
        loaded = await journal.callers.load_demo()
    except ToolError as error:
        print(f"The demo data could not be loaded: {error.text}", file=out)
        return
    lines = [f"\nThe demo journal is {loaded}. `zorivest-rpc demo remove` takes it out again."]
    lines += _connect(journal.settings, url, _key(journal, lines, out))
    lines += ["\nThen ask, for example:\n", *(f"  - {question}" for question in ASK)]
    lines.append("\nStop with Ctrl-C; the journal stays.")
    print("\n".join(lines), file=out, flush=True)


def tell_founding(journal: Journal, out: TextIO = sys.stderr) -> None:
    """Say once that a journal was made and what its key is: the key itself on a terminal alone."""
    settings = journal.settings
    print(f"A new journal was made in {settings.data_dir}.", file=out)
    if settings.api_key:
        print("Its admin key is the one of ZORIVEST_API_KEY.", file=out)
        return
    file = os.path.join(settings.data_dir, "api.key")
    place = file if os.path.exists(file) else "the system's keyring"
    key = journal.callers.own_key()
    if key and out.isatty():
        print(f"Its admin key, shown this once and kept in {place}:\n\n  {key}\n", file=out, flush=True)
    else:
        print(f"Its admin key is kept in {place}.", file=out, flush=True)


def _key(journal: Journal, lines: list[str], out: TextIO) -> str | None:
    """The key to show, if it may be: on a terminal. Elsewhere it is said where it is."""
    if journal.settings.no_auth:
        return None
    key = journal.callers.own_key()
    if key and out.isatty():
        lines.append(f"\nYour key: {key}\nIt opens the journal; it is shown here and stored for you, nowhere else.")
        return key
    file = os.path.join(journal.settings.data_dir, "api.key")
    place = file if os.path.exists(file) else "the system's keyring"
    lines.append(f"\nYour key is kept in {place}; it is not printed here.")
    return None


def _connect(settings: Settings, url: str, key: str | None) -> list[str]:
    command = _command(settings)
    program = shlex.join(own_command())
    lines = ["\nLet a client start the server itself; that needs no key, and one command writes its file:\n"]
    lines.append(f"  {program} install claude-code    # or {', '.join(client.id for client in CLIENTS[1:5])}, …")
    lines += ["\nor paste into the client's own file:\n"]
    lines += _entry_lines(Launch(command))
    lines += ["\nOr point a client at this address:\n"]
    header = f' --header "Authorization: Bearer {key or "$ZORIVEST_API_KEY"}"' if not settings.no_auth else ""
    lines.append(f"  claude mcp add --transport http zorivest {url}{header}")
    for client in CLIENTS:
        if client.id in _BY_ADDRESS:
            entry = client.entry(Launch(url=url, keyed=not settings.no_auth))
            if key is not None:
                entry["headers"] = {"Authorization": f"Bearer {key}"}
            lines.append(f"  {client.title}: {_file(client, entry)}")
    if key is None and not settings.no_auth:
        lines.append("\nThese take the key from ZORIVEST_API_KEY in the client's environment.")
    return lines


def _command(settings: Settings) -> tuple[str, ...]:
    """How a client starts us, for the same journal."""
    elsewhere = settings.data_dir != os.path.abspath(default_data_dir(os.environ))
    return (*own_command(), *(("--data-dir", settings.data_dir) if elsewhere else ()))


def _entry_lines(launch: Launch) -> list[str]:
    """One line for all clients that take the same text."""
    same: dict[str, list[str]] = {}
    for client in CLIENTS:
        same.setdefault(_file(client, client.entry(launch)), []).append(client.title)
    return [f"  {', '.join(titles)}:\n    {text}" for text, titles in same.items()]


def _file(client: Client, entry: dict[str, Any]) -> str:
    """What stands in the client's file: JSON, or TOML as an inline table."""
    if client.toml:
        values = ", ".join(f"{name} = {json.dumps(value)}" for name, value in entry.items())
        return f"{client.container}.zorivest = {{ {values} }}"
    document: dict[str, Any] = {"zorivest": entry}
    for name in reversed(client.keys):
        document = {name: document}
    return json.dumps(document)
