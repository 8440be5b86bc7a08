"""`zorivest-rpc toolsets`: the groups of tools, with counts and the size of their definitions."""

from __future__ import annotations

from zorivest_rpc.app import Journal
from zorivest_rpc.cli.servers import ask_servers
from zorivest_rpc.cli.terminal import open_journal, print_json, report_misuse, say, session_as, table, wants_help, whom
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import sizes
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.catalog.toolsets import toolset_names

__all__ = ["run"]


USAGE = """usage: zorivest-rpc toolsets list [--as CLIENT] [--tenant ID] [--json]
       zorivest-rpc toolsets show NAME [--as CLIENT] [--tenant ID] [--json]"""


def run(argv: list[str]) -> int:
    if wants_help("toolsets", argv, USAGE):
        return 0
    words = Words(argv, flags=("--as", "--tenant"))
    settings = parse("toolsets", words.options)
    if not words.words or words.words[0] not in ("list", "show") or (words.words[0] == "show" and len(words.words) < 2):
        return report_misuse("toolsets", USAGE, words.words, ("list", "show"))
    journal = open_journal(settings, words.flags.get("--tenant"))
    ask_servers(journal)
    session = session_as(journal, words.flags.get("--as"))
    who = whom(journal, session)
    definitions = journal.audience.definitions
    if words.words[0] == "show":
        return _show(journal, session, words.words[1], words.json)
    told = [
        {
            "name": toolset.name,
            "tools": len(journal.audience.callable_tools(session, toolset.name, who)),
            "loaded": journal.audience.is_loaded(session, toolset.name, who),
            "bytes": sizes(journal.audience, session, journal.audience.callable_tools(session, toolset.name, who), who),
            "description": toolset.description,
            **({"source": "upstream", "status": toolset.status, "error": toolset.error} if toolset.upstream else {}),
        }
        for toolset in definitions.toolsets
    ]
    if words.json:
        print_json(told)
    else:
        rows = [
            [
                str(each["name"]),
                str(each["tools"]),
                "yes" if each["loaded"] else "",
                str(each["bytes"]),
                str(each["description"]),
            ]
            for each in told
        ]
        say(table(rows, ["TOOLSET", "TOOLS", "LISTED", "BYTES", "COVERS"]))
    return 0


def _show(journal: Journal, session: Session, name: str, as_json: bool) -> int:
    known, who = toolset_names(journal.audience.definitions), whom(journal, session)
    if name not in known:
        near = nearest(name, known)
        raise ConfigError(name, "no such toolset" + (f"; did you mean {near}?" if near else ""))
    tools = journal.audience.callable_tools(session, name, who)
    if as_json:
        print_json([_describe(journal, session, spec) for spec in tools])
    else:
        listed = journal.audience.visible_tools(session, who)
        rows = [[spec.name, "yes" if spec in listed else "", spec.description.minimal] for spec in tools]
        say(table(rows, ["TOOL", "LISTED", "WHAT IT DOES"]))
    return 0


def _describe(journal: Journal, session: Session, spec: ToolSpec) -> dict[str, Json]:
    who = whom(journal, session)
    return {
        "name": spec.name,
        "description": spec.description.minimal,
        "listed": spec in journal.audience.visible_tools(session, who),
        "bytes": sizes(journal.audience, session, [spec], who),
    }
