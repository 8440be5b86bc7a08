"""`zorivest-rpc mcp adopt CLIENT`: the servers that a client has configured, taken over into our profile."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from zorivest_rpc.cli.mcp.editing import Target, add_entries, entries_of, target_of
from zorivest_rpc.cli.mcp.listing import columns
from zorivest_rpc.cli.words import Words
from zorivest_rpc.clients import edit, files, jsonc
from zorivest_rpc.clients.adopt import Adopted, adopt_entry, list_switched_off
from zorivest_rpc.clients.apply import Done as Change
from zorivest_rpc.clients.entries import Client, find_client, is_ours, launch_of
from zorivest_rpc.clients.places import locate
from zorivest_rpc.clients.refusal import ClientFileRefused
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import check_profiles

__all__ = ["run_adopt"]


class Row(NamedTuple):
    """What becomes of one entry: `added`, `unchanged` or `left out`."""

    there: str
    status: str
    adopted: Adopted
    reason: str = ""


def run_adopt(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 a file was refused or a named server is not there, 2 misused."""
    words = Words(argv, flags=(), switches=("--json", "--dry-run"), repeated=("--server",))
    if len(words.words) != 1:
        raise ConfigError("mcp adopt", f"takes one CLIENT, found {len(words.words)}")
    client = find_client(words.words[0])
    settings = parse("mcp", words.options)
    target = target_of(settings)
    path = locate(client.id, os.environ)
    dry_run = "--dry-run" in words.switches
    try:
        entries = _entries(client, path)
        wanted = words.repeated["--server"]
        missing = [name for name in wanted if name not in entries]
        if missing:
            raise ClientFileRefused(
                f'it has no server "{missing[0]}"', f"There are: {', '.join(entries) or 'none'}.", path
            )
        chosen = {name: entry for name, entry in entries.items() if not wanted or name in wanted}
        rows = _judge(chosen, target, settings)
        added = [row.adopted.entry for row in rows if row.status == "added" and row.adopted.entry is not None]
        done = add_entries(target, added, dry_run=dry_run)
    except ClientFileRefused as refused:
        if words.json:
            from zorivest_rpc.cli.terminal import print_json

            facts = {"schema": "zorivest.mcp.adopt.v1", "client": client.id, "status": "refused"}
            print_json({**facts, "where": refused.where, "problem": refused.problem, "next": refused.next})
        else:
            print(f"zorivest-rpc: {refused}", file=sys.stderr)
        return 1
    if words.json:
        from zorivest_rpc.cli.terminal import print_json

        print_json(_facts(client, path, target, rows, done, dry_run))
    else:
        print("\n".join(_lines(client, path, rows, done, dry_run)))
    return 0


def _entries(client: Client, path: str) -> dict[str, Any]:
    """Every server of the client's file; of Claude Code also those of the project in the working directory."""
    data = files.read(path).data
    found = dict(edit.entries_in(client, data))
    if client.toml or data is None or not data.strip():
        return found
    document = jsonc.parse(data.decode()).value  # it was read so a line above
    if not isinstance(document, Mapping):
        return found
    project: Any = None
    if client.id == "claude-code":
        projects = document.get("projects")
        project = projects.get(os.getcwd()) if isinstance(projects, Mapping) else None
        servers = project.get("mcpServers") if isinstance(project, Mapping) else None
        found |= dict(servers) if isinstance(servers, Mapping) else {}
    off = list_switched_off(found, document, project)
    return {
        name: {**entry, "disabled": True} if name in off and isinstance(entry, Mapping) else entry
        for name, entry in found.items()
    }


def _judge(entries: Mapping[str, Any], target: Target, settings: Settings) -> list[Row]:
    present = {server.get("name"): server for server in entries_of(target, files.read(target.path).data)}
    rows: list[Row] = []
    for there, raw in entries.items():
        adopted = adopt_entry(there, raw)
        if _is_ourselves(there, raw, settings):
            rows.append(Row(there, "left out", adopted, "it is this server itself"))
        elif adopted.entry is None:
            rows.append(Row(there, "left out", adopted, adopted.reason or ""))
        elif adopted.name in present:
            same = _place(present[adopted.name]) == _place(adopted.entry)
            reason = "" if same else f'there is another server "{adopted.name}" in the profile'
            rows.append(Row(there, "unchanged" if same else "left out", adopted, reason))
        elif problems := check_profiles({"x": {"mcp_servers": [adopted.entry]}}):
            rows.append(Row(there, "left out", adopted, problems[0].message))
        else:
            present[adopted.name] = adopted.entry
            rows.append(Row(there, "added", adopted))
    return rows


def _place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (entry.get("endpoint"), entry.get("command"), tuple(entry.get("args", ())))


def _is_ourselves(name: str, raw: Any, settings: Settings) -> bool:
    """Our command, or an address of this machine on our port, or under our name."""
    launch = launch_of(raw)
    if launch is None or not launch.url:
        return is_ours(raw)
    try:
        parts = urlsplit(launch.url)
        here = parts.hostname in ("localhost", "127.0.0.1", "::1")
        return here and (parts.port == settings.port or name == "zorivest")
    except ValueError:
        return False


def _lines(client: Client, path: str, rows: list[Row], done: Change, dry_run: bool) -> list[str]:
    lines = [f"{client.title}: {_many(len(rows), 'server')} in {path}"]
    cells = []
    for row in rows:
        as_name = row.adopted.name if row.adopted.name != row.there else ""
        about = row.reason or _target(row.adopted)
        cells.append([row.status, row.there, f"as {as_name}" if as_name else "", about])
    lines += columns(cells)
    for row in rows:
        if row.status == "added":
            lines += [f"Set {name} for {row.adopted.name}: {what}." for name, what in row.adopted.variables]
            lines += [f"{row.adopted.name}: {note}." for note in row.adopted.notes]
    if done.status == "unchanged":
        return [*lines, f"nothing to change in {done.file}"]
    if dry_run:
        return [*lines, done.diff, f"nothing was written to {done.file}"]
    lines.append(f"written to {done.file}")
    return [*lines, f"The file as it was: {done.backup}"] if done.backup else lines


def _target(adopted: Adopted) -> str:
    entry = adopted.entry or {}
    return f"http {entry['endpoint']}" if "endpoint" in entry else f"stdio {entry.get('command', '')}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _facts(client: Client, path: str, target: Target, rows: list[Row], done: Change, dry_run: bool) -> dict[str, Any]:
    servers = [
        {
            "name": row.there,
            "as": row.adopted.name,
            "status": row.status.replace(" ", "_"),
            "reason": row.reason or None,
            "variables": [name for name, _ in row.adopted.variables] if row.status == "added" else [],
            "notes": list(row.adopted.notes) if row.status == "added" else [],
        }
        for row in rows
    ]
    facts: dict[str, Any] = {"schema": "zorivest.mcp.adopt.v1", "client": client.id, "client_file": path}
    facts |= {"status": done.status, "profile": target.profile, "file": done.file, "backup": done.backup}
    return {**facts, "dry_run": dry_run, "servers": servers, "diff": done.diff}
