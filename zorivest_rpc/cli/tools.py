"""`zorivest-rpc tools`: the catalogue and a call from the terminal, through the same path as a client's call."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

from zorivest_rpc.app import Journal
from zorivest_rpc.cli.asking import asker, describe_askers
from zorivest_rpc.cli.servers import ask_servers, explain_absence, settle
from zorivest_rpc.cli.terminal import (
    open_journal,
    paragraph,
    print_json,
    report_misuse,
    say,
    session_as,
    table,
    wants_help,
    whom,
)
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.load import find_opt_in
from zorivest_rpc.serving.catalog.search import SearchIndex
from zorivest_rpc.serving.catalog.spec import Mode, ToolSpec, routes
from zorivest_rpc.serving.catalog.toolsets import always_loaded

__all__ = ["run"]

_PATIENCE = 10.0  # seconds
# What they tell or do may be of another server.
_ABOUT_TOOLS = frozenset(
    (
        *("call_tool", "tool_search", "list_available_toolsets", "describe_toolset", "enable_toolset"),
        "zorivest_diagnose",
    )
)
_PARTY = {"client": "the client", "server": "the server", "nobody": "nobody"}
USAGE = """usage: zorivest-rpc tools list [--as CLIENT] [--tenant ID] [--json]
       zorivest-rpc tools show NAME [--as CLIENT] [--tenant ID] [--json]
       zorivest-rpc tools call NAME [key=value | key=@FILE …] [--json-args JSON] [--as CLIENT] [--tenant ID] [--json]
       zorivest-rpc tools search TEXT [--as CLIENT] [--tenant ID] [--json]
       zorivest-rpc tools why NAME [--as CLIENT] [--tenant ID] [--json]

key=@FILE takes the value from a file (key=@@text for a text that begins with @). A tool that asks for confirmation asks
on the terminal; a script says --confirm never, or --approve-tool NAME where a profile or another server is why."""


def run(argv: list[str]) -> int:
    if wants_help("tools", argv, USAGE):
        return 0
    words = Words(argv, flags=("--as", "--json-args", "--tenant"))
    settings = parse("tools", words.options)
    verb, rest = (words.words[0], words.words[1:]) if words.words else ("", [])
    commands = {"list": _list, "show": _show, "call": _call, "search": _search, "why": _why}
    if verb not in commands or (verb != "list" and not rest):
        return report_misuse("tools", USAGE, words.words, tuple(commands))
    if verb == "call" and settings.confirm == "auto":
        settings = settings._replace(confirm="always")  # `--as` names a client; none is there to ask its user
    journal = open_journal(settings, words.flags.get("--tenant"))
    if verb != "call":
        ask_servers(journal)
    return commands[verb](journal, words, rest)


def _spec(journal: Journal, name: str) -> ToolSpec:
    spec = journal.audience.specs.get(name)
    if spec is None:
        if (toolset := find_opt_in(name)) is not None:
            raise ConfigError(
                name, f"it belongs to {toolset}, which exists only where it is named: --toolsets {toolset}"
            )
        near = nearest(name, journal.audience.specs)
        raise ConfigError(name, "no such tool" + (f"; did you mean {near}?" if near else ""))
    return spec


def _list(journal: Journal, words: Words, rest: list[str]) -> int:
    session = session_as(journal, words.flags.get("--as"))
    _look(journal, session)
    who = whom(journal, session)
    listed = journal.audience.visible_tools(session, who)
    if words.json:
        view = journal.audience.exposed_view(session, who)
        shown = [None if view is None else view.definition(spec.name) for spec in listed]
        full = (journal.audience.definition(session, spec, who) for spec in listed)
        print_json([now or definition for now, definition in zip(shown, full, strict=True)])
        return 0
    rows = [[spec.name, spec.toolset or "-", spec.description.minimal] for spec in listed]
    profile = journal.audience.profile(session)
    seen = paragraph(f"{len(listed)} tools as {profile.title} sees them ({profile.mode}: {profile.reason})")
    asking = paragraph(describe_askers(journal.audience, session))
    say(f"{table(rows, ['TOOL', 'TOOLSET', 'WHAT IT DOES'])}\n\n{seen}\n{asking}")
    return 0


def _show(journal: Journal, words: Words, rest: list[str]) -> int:
    spec = _spec(journal, rest[0])
    session = session_as(journal, words.flags.get("--as"))
    definition = journal.audience.definition(session, spec, whom(journal, session))
    if words.json:
        print_json(definition)
        return 0
    told = [f"{spec.name} ({', '.join(spec.toolsets) or 'always listed'})", paragraph(spec.description.rich)]
    required = set(spec.input_schema.get("required", ()))
    rows = [
        [name, str(schema.get("type", "")), "yes" if name in required else "", schema.get("description", "")]
        for name, schema in spec.input_schema.get("properties", {}).items()
    ]
    told.append(table(rows, ["INPUT", "TYPE", "NEEDED", "MEANING"]) if rows else "Takes no input.")
    hints = spec.annotations
    facts = {
        "reads only": hints.read_only_hint,
        "destructive": hints.destructive_hint,
        "guarded": spec.guarded,
        "asks for confirmation": spec.confirm,
        f"asks for confirmation above {spec.confirm_above} entries": spec.confirm_above is not None,
    }
    told.append(", ".join(name for name, true in facts.items() if true))
    say("\n\n".join(part for part in told if part))
    return 0


def _search(journal: Journal, words: Words, rest: list[str]) -> int:
    """Within the limits, as tool_search does it."""
    session = session_as(journal, words.flags.get("--as"))
    who = whom(journal, session)
    limits, listed = journal.audience.limits(session, who), journal.audience.visible_tools(session, who)
    index = SearchIndex(journal.audience.definitions.tools)
    found = [match for match in index.words(" ".join(rest)) if limits.refusal(match.tool) is None][:10]
    if words.json:
        print_json(
            [
                {
                    "name": match.tool.name,
                    "toolset": match.tool.toolset,
                    "description": match.tool.description.minimal,
                    "score": round(match.score, 3),
                    "listed": match.tool in listed,
                }
                for match in found
            ]
        )
    else:
        rows = [[match.tool.name, match.tool.toolset, match.tool.description.minimal] for match in found]
        say(table(rows, ["TOOL", "TOOLSET", "WHAT IT DOES"]) if rows else "Nothing matches.")
    return 0 if found else 1


def _why(journal: Journal, words: Words, rest: list[str]) -> int:
    """From the same predicates that filter: there is no second opinion."""
    absent = explain_absence(journal, rest[0]) if rest[0] not in _offered(journal) else None
    if absent is not None:
        return _tell_absence(rest[0], absent, words.json)
    spec = _spec(journal, rest[0])
    audience, session = journal.audience, session_as(journal, words.flags.get("--as"))
    _look(journal, session)
    who = whom(journal, session)
    listed = spec in audience.visible_tools(session, who)
    exposed = _explain_exposure(journal, session, spec)
    refusal = audience.limits(session, who).refusal(spec)
    selection, profile = audience.selection(session), audience.profile(session)
    told: dict[str, Any] = {
        "tool": spec.name,
        "listed": listed,
        "callable": refusal is None,
        "toolsets": list(spec.toolsets),
        "chosen_toolsets": list(selection.toolsets),
        "chosen_by": selection.source,
        "mode": str(profile.mode),
        "mode_because": profile.reason,
    }
    if spec.ruling is not None:
        told["policy"] = {"verdict": spec.ruling.verdict, "reason": spec.ruling.reason}
    if spec.is_gated:
        told["confirmed_by"] = {
            way: asker(audience, session, spec, trusts_names=trusted)
            for way, trusted in (("stdio", True), ("http", False))
        }
    if refusal is not None:
        told["refused"] = {"code": refusal[0], "reason": refusal[1]}
    if exposed is not None:
        told["exposure"] = exposed
    if words.json:
        print_json(told)
        return 0
    say("\n".join(map(paragraph, _explain(journal, session, spec, told))))
    return 0


def _explain(journal: Journal, session: Session, spec: ToolSpec, told: dict[str, Any]) -> list[str]:
    selection, profile = journal.audience.selection(session), journal.audience.profile(session)
    listed, refused, exposed = told["listed"], told.get("refused"), told.get("exposure")
    seen, runs = "listed" if listed else "not listed", "can" if refused is None else "cannot"
    lines = [
        f"{spec.name} is {seen} and {runs} be called.",
        f"It belongs to {', '.join(spec.toolsets) or 'no toolset: it is always listed'}.",
    ]
    if profile.implied.lists_all and not selection.requested:
        lines.append(f"Mode {profile.mode} lists everything, because {profile.reason}.")
    else:
        single = f" and {', '.join(selection.tools)}" if selection.tools else ""
        lines.append(f"Listed at start: {', '.join(selection.toolsets)}{single} (from {selection.source}).")
    if refused is not None:
        lines.append(f"Refused: {refused['reason']}.")
    elif exposed is not None and not exposed["listed"]:
        lines.append(f"{_hidden_because(exposed)} By its name, or through call_tool, it runs anyway.")
    elif not listed:
        ways = _ways_to_list(journal, session, spec)
        lines.append(f"To list it: {ways}. By its name, or through call_tool, it runs anyway.")
    if exposed is not None and listed and exposed["hidden_modes"]:
        modes = ", ".join(f"{mode} ({when})" for mode, when in exposed["hidden_modes"].items())
        lines.append(f"Not offered now: {modes}.")
    if refused is None and "confirmed_by" in told:
        by = told["confirmed_by"]
        lines.append(
            f"Who asks the user before it runs: over stdio {_PARTY[by['stdio']]}, over HTTP {_PARTY[by['http']]}."
        )
    return lines


def _look(journal: Journal, session: Session) -> None:
    """What the journal holds now, where lists follow it; what cannot be known shows."""
    following = journal.following
    if following is not None:

        async def look() -> None:
            await following.look(session, whom(journal, session))
            await journal.close()

        asyncio.run(look())


def _explain_exposure(journal: Journal, session: Session, spec: ToolSpec) -> dict[str, Any] | None:
    engine, view = journal.exposure, journal.audience.exposed_view(session, whom(journal, session))
    return None if engine is None or view is None else engine.explain(view, spec.name)


def _hidden_because(exposed: dict[str, Any]) -> str:
    gate = exposed.get("gate")
    if gate is not None and gate["applies"] and not gate["open"]:
        return f"It is left out of the list until {gate['flag']} is raised by a first successful call."
    values = [
        f"{name} is {'unknown' if None in known else sum(known)}" for name, known in exposed["state"].items() if known
    ]
    when = exposed["when"] if exposed["when"] != "always" else " or ".join(exposed["hidden_modes"].values())
    return f"It is left out of the list for want of data: it is listed when {when}; {', '.join(values)}."


def _offered(journal: Journal) -> set[str]:
    definitions = journal.audience.definitions
    return {spec.name for spec in (*definitions.tools, *definitions.meta_tools)}


def _tell_absence(name: str, absent: dict[str, str], as_json: bool) -> int:
    if as_json:
        print_json({"tool": name, "listed": False, "callable": False, "absent": absent})
        return 0
    lines = [f'{name} is not offered: {absent["detail"]} (MCP server "{absent["server"]}").']
    if absent["state"] == "held":
        lines.append(f"Look at it with zorivest-rpc mcp pin --server {absent['server']}.")
    else:
        lines.append(f"zorivest-rpc mcp discover --server {absent['server']} shows all of its tools.")
    say("\n".join(map(paragraph, lines)))
    return 0


def _ways_to_list(journal: Journal, session: Session, spec: ToolSpec) -> str:
    """Beside what is listed already, since a choice replaces the one before; a static client's list stays as it is."""
    audience = journal.audience
    selection, always = audience.selection(session), always_loaded(audience.definitions)
    kept = [name for name in selection.toolsets if name not in always] if selection.requested else ["default"]
    restart = f"--toolsets {','.join((*kept, spec.toolset))}"
    return restart if audience.profile(session).mode is Mode.STATIC else f"{restart} or enable_toolset"


def _call(journal: Journal, words: Words, rest: list[str]) -> int:
    client = session_as(journal, words.flags.get("--as")).client
    name = "zorivest-rpc-cli" if client is None else client.name

    async def call() -> int:
        if rest[0] not in journal.audience.specs or rest[0] in _ABOUT_TOOLS:
            await settle(journal)  # it may be a tool of another server, or run one
        try:
            spec = _spec(journal, rest[0])
            arguments = _arguments(spec, rest[1:], words.flags.get("--json-args"))
            return await _call_once(journal, spec, arguments, name, words.json)
        finally:
            await journal.close()

    return asyncio.run(call())


def _arguments(spec: ToolSpec, pairs: list[str], text: str | None) -> dict[str, Any]:
    import json

    try:
        arguments = json.loads(text) if text else {}
    except ValueError as exc:
        raise ConfigError("--json-args", f"not JSON: {exc}") from None
    if not isinstance(arguments, dict):
        raise ConfigError("--json-args", "must be a JSON object")
    properties = spec.input_schema.get("properties", {})
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(pair, "arguments are written key=value")
        if value.startswith("@"):
            value = value[1:] if value.startswith("@@") else _from_file(spec, name, value[1:])
        if properties.get(name, {}).get("type") == "string":
            arguments[name] = value
            continue
        try:
            arguments[name] = json.loads(value)
        except ValueError:
            arguments[name] = value
    return arguments


def _script_means(name: str, *, is_ruled: bool) -> str:
    """`--confirm` decides where the operator's policy says nothing of a tool, and nowhere else."""
    return f"for a script, name {name} in approve_tool" if is_ruled else "a script says --confirm never"


def _from_file(spec: ToolSpec, name: str, path: str) -> str:
    """The text of a file; where the tool takes a file's bytes as base64, that."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as exc:
        raise ConfigError(f"{name}=@{path}", (exc.strerror or "cannot be read").lower()) from None
    if any(
        route.file is not None and (route.file.source, route.file.param) == ("base64", name) for route in routes(spec)
    ):
        from base64 import b64encode

        return b64encode(data).decode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{name}=@{path}", "not a text in UTF-8, and this input takes no other file") from None


async def _call_once(
    journal: Journal, spec: ToolSpec, arguments: dict[str, Any], client_name: str, as_json: bool
) -> int:
    import orjson

    from zorivest_rpc import __version__
    from zorivest_rpc.mcp.server import Server
    from zorivest_rpc.mcp.transports.memory import MemoryClient

    client = MemoryClient(Server(journal.offer))
    info = {"name": client_name, "version": __version__}
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    opening = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}} if asks else {}, "clientInfo": info}
    client.send(orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}))
    client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    if spec.name == "zorivest_diagnose":  # it uses a session and waits for none; here nothing else makes one
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await journal.warm_up()
    params = {"name": spec.name, "arguments": arguments}
    client.send(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    while True:
        answer = orjson.loads(await client.receive())
        if answer.get("method") == "elicitation/create":
            result = await asyncio.to_thread(_agree, answer["params"])
            client.send(orjson.dumps({"jsonrpc": "2.0", "id": answer["id"], "result": result}))
        elif answer.get("id") == 1:
            break
    if "error" in answer:
        print(f"zorivest-rpc: {answer['error']['message']}", file=sys.stderr)
        return 1
    result = answer["result"]
    if as_json:
        print_json(result)
    elif "structuredContent" in result:
        print_json(result["structuredContent"])
    else:
        say("\n".join(block.get("text") or f"[{block['type']}]" for block in result["content"]))
    if not result.get("isError"):
        return 0
    if result.get("_meta", {}).get("com.zorivest/error", {}).get("code") == "confirmation_missing":
        inner = journal.audience.specs.get(str(arguments.get("name"))) if spec.name == "call_tool" else None
        means = _script_means((inner or spec).name, is_ruled=(inner or spec).ruling is not None)
        print(f"zorivest-rpc: on a terminal you would be asked; {means}", file=sys.stderr)
    return 1


def _agree(params: dict[str, Any]) -> dict[str, Any]:
    """The server's question, put to the person at the terminal: a yes, or what is to be typed again."""
    content: dict[str, Any] = {}
    print(paragraph(params["message"]), file=sys.stderr)
    for name, schema in params.get("requestedSchema", {}).get("properties", {}).items():
        yes_or_no = schema.get("type") == "boolean"
        print(f"{schema.get('title', name)}{' [y/N]' if yes_or_no else ':'} ", end="", file=sys.stderr, flush=True)
        typed = sys.stdin.readline().strip()
        if not typed or (yes_or_no and typed.lower() not in ("y", "yes")):
            return {"action": "decline"}
        try:
            content[name] = True if yes_or_no else float(typed) if schema.get("type") == "number" else typed
        except ValueError:
            return {"action": "decline"}
    return {"action": "accept", "content": content}
