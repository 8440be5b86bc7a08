"""What the commands for people share: a session as a client would have it, tables, JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from zorivest_rpc.app import Journal
from zorivest_rpc.app.backends import LOCAL
from zorivest_rpc.cli.words import uses_colour
from zorivest_rpc.config import Settings, usage
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import Implementation
from zorivest_rpc.serving.audience import THE_ONE, ActingFor
from zorivest_rpc.serving.modes.detect import find_client, normalise

__all__ = [
    "WIDTH",
    "open_journal",
    "paragraph",
    "print_json",
    "report_misuse",
    "say",
    "session_as",
    "table",
    "wants_help",
    "whom",
]

WIDTH = 80
_OWN = """\
  --as CLIENT
      as this client would be served, such as cursor or claude-code
  --tenant ID
      of a server with several clients: for this one
  --json
      print JSON for programs
"""


def open_journal(settings: Settings, tenant: str | None) -> Journal:
    """The journal of a command, for the tenant of `--tenant` where that is given."""
    if tenant is None:
        return Journal(settings)
    if not settings.tenant_sources:
        raise ConfigError("--tenant", "no clients are named; give --tenants-file, or set CLIENTS_CONFIG")
    from zorivest_rpc.tenants.config import normalise_id

    journal = Journal(settings._replace(client_id=tenant))
    assert journal.tenancy is not None
    ids = journal.tenancy.resolver.grants(LOCAL).ids
    if normalise_id(tenant) not in ids:
        raise ConfigError("--tenant", f'unknown client "{tenant}"; there are {", ".join(ids) or "none"}')
    return journal


def whom(journal: Journal, session: Session) -> ActingFor:
    """Whose tools a command shows: those of the one tenant, or of all."""
    return THE_ONE if journal.tenancy is None else journal.tenancy.acting_for_list(session, None)


def session_as(journal: Journal, client: str | None) -> Session:
    """A session as that client would have it; without a name, an unknown one."""
    session = Session(LATEST_LEGACY, Phase.READY)
    if client is None:
        return session
    table = journal.audience.definitions.clients
    wanted = normalise(client)
    for known in table.clients:
        if known.id == wanted:
            session.client = Implementation((*known.names, *known.prefixes)[0])
            return session
    if find_client(table, wanted) is None:
        from zorivest_rpc.mcp.catalog.names import nearest

        names = [known.id for known in table.clients]
        near = nearest(client, names)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
        raise ConfigError("--as", f"no client {client!r}; {hint}")
    session.client = Implementation(client)
    return session


def table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    """Columns that fit 80 characters; the last one is cut, never wrapped."""
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    left = WIDTH - sum(widths[:-1]) - 2 * (len(heads) - 1)
    widths[-1] = max(8, min(widths[-1], left))

    def line(row: Sequence[str]) -> str:
        cells = [
            cell if len(cell) <= width else cell[: width - 1] + "…" for cell, width in zip(row, widths, strict=True)
        ]
        return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()

    lines = [line(row) for row in rows]
    head = line(heads)
    if uses_colour():
        head = f"\x1b[1m{head}\x1b[0m"
    return "\n".join([head, *lines])


def report_misuse(command: str, forms: str, words: Sequence[str], verbs: Sequence[str]) -> int:
    """What is wrong with the words, and then the forms there are; the exit code of a misuse."""
    from zorivest_rpc.mcp.catalog.names import nearest

    if words and words[0] in verbs:
        print(f"zorivest-rpc: {command} {words[0]} needs one word more", file=sys.stderr)
    elif words:
        near = nearest(words[0], verbs)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(verbs)}"
        print(f"zorivest-rpc: no command {command} {words[0]}; {hint}", file=sys.stderr)
    print(forms, file=sys.stderr)
    return 2


def print_json(value: Json) -> None:
    import json

    say(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str) -> None:
    """One print for all of it."""
    print(text, flush=True)


def paragraph(text: str) -> str:
    from textwrap import fill

    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def wants_help(command: str, words: Sequence[str], forms: str) -> bool:
    """Whether help was asked for; then it has been given."""
    if "--help" not in words and "-h" not in words:
        return False
    say(f"{forms}\n\n{_OWN}{usage(command).partition(chr(10))[2].strip(chr(10))}")
    return True
