"""`zorivest-rpc budget`: what the tool list costs a client, in tools, bytes and estimated tokens."""

from __future__ import annotations

import sys

from zorivest_rpc.app import Journal
from zorivest_rpc.cli.servers import ask_servers
from zorivest_rpc.cli.terminal import open_journal, paragraph, print_json, say, session_as, table, wants_help, whom
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.audience import sizes

__all__ = ["run"]

_BYTES_PER_TOKEN = 4
_USUAL = ("claude-code", "vscode", "cursor")


USAGE = "usage: zorivest-rpc budget [--as CLIENT] [--tenant ID] [--json]"


def run(argv: list[str]) -> int:
    if wants_help("budget", argv, USAGE):
        return 0
    words = Words(argv, flags=("--as", "--tenant"))
    settings = parse("budget", words.options)
    if words.words:
        print(USAGE, file=sys.stderr)
        return 2
    journal = open_journal(settings, words.flags.get("--tenant"))
    ask_servers(journal)
    if "--as" in words.flags:
        names = [words.flags["--as"]]
    else:
        known = {client.id for client in journal.audience.definitions.clients.clients}
        names = [name for name in _USUAL if name in known]
    costs = [_measure(journal, name) for name in names]
    if words.json:
        print_json(costs)
    else:
        say(_render(costs))
    return 0


def _measure(journal: Journal, client: str) -> dict[str, Json]:
    session = session_as(journal, client)
    who = whom(journal, session)
    listed, profile = journal.audience.visible_tools(session, who), journal.audience.profile(session)
    size = sizes(journal.audience, session, listed, who)
    limit = profile.traits.tool_limit
    return {
        "client": profile.title,
        "mode": str(profile.mode),
        "tools": len(listed),
        "bytes": size,
        "estimated_tokens": size // _BYTES_PER_TOKEN,
        "tool_limit": limit,
        "share_of_limit": round(len(listed) / limit, 2) if limit else None,
    }


def _render(costs: list[dict[str, Json]]) -> str:
    rows = [
        [
            str(each["client"]),
            str(each["mode"]),
            str(each["tools"]),
            str(each["bytes"]),
            str(each["estimated_tokens"]),
            f"{each['share_of_limit']:.0%}" if each["share_of_limit"] else "no limit known",
        ]
        for each in costs
    ]
    parts = [table(rows, ["CLIENT", "MODE", "TOOLS", "BYTES", "TOKENS (EST.)", "OF ITS LIMIT"])]
    parts += [
        paragraph(f"{each['client']} works best with at most {each['tool_limit']} tools; choose fewer with --toolsets.")
        for each in costs
        if (each["share_of_limit"] or 0) > 1
    ]
    return "\n\n".join(parts)
