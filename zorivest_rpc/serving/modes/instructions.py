"""The server instructions: what a model should know before its first call, by mode, in at most 2 KB.

Sections stand in the order of their worth. What does not fit is left out whole, from the end, so that a client that
cuts at its own limit never cuts a sentence in two."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zorivest_rpc.serving.catalog.spec import Mode

__all__ = ["LIMIT", "Category", "Situation", "compose"]

LIMIT = 2048
_NAMED = 12  # tools that were left out


class Category(msgspec.Struct, frozen=True):
    """A toolset as the instructions mention it."""

    name: str
    description: str
    tools: int
    loaded: bool


class Situation(msgspec.Struct, frozen=True):
    """Where the session is; None where it is not known. Of that nothing is said, except that the guard of a backend is
    not known yet."""

    backend: str | None = None
    tenant: str | None = None
    locked: bool | None = None
    read_only: bool = False


def compose(
    mode: Mode,
    categories: Sequence[Category],
    *,
    listed: int,
    situation: Situation | None = None,
    client: str = "this client",
    tool_limit: int | None = None,
    gated: int = 0,
    forms: bool = False,
    fixed_list: bool = False,
    next_turn: bool = False,
    unlisted: Sequence[str] = (),
    limit: int = LIMIT,
) -> str:
    """The instructions of a session that lists `listed` tools.

    `gated` counts the tools before which the server itself asks, `forms` says that it asks the user with a form;
    `fixed_list` that the protocol revision forbids a list to change during a conversation; `next_turn` that the client
    shows a changed list to its model only in the turn after; `unlisted` are tools that a list had no room for."""
    sections = [_opening(mode, categories, listed, fixed_list=fixed_list)]
    if situation is not None and (where := _where(situation)):
        sections.append(where)
    if tool_limit is not None and listed > tool_limit:
        sections.append(
            f"Warning: {listed} tools are listed and {client} works best with at most {tool_limit}; "
            "start the server with fewer --toolsets."
        )
    if unlisted:
        sections.append(_left_out(unlisted))
    sections.append(_reaching(next_turn=next_turn and not fixed_list))
    sections.append(_safety(gated, forms=forms))
    sections.append(_categories(categories))
    return _fit(sections, min(limit, LIMIT))


def _opening(mode: Mode, categories: Sequence[Category], listed: int, *, fixed_list: bool) -> str:
    if mode is Mode.ANTHROPIC:
        return (
            "Use tool_search to discover tools. Prefer sequential execution. "
            "For multi-metric analysis, use code_execution to batch calls."
        )
    if mode is Mode.DYNAMIC:
        names = ", ".join(category.name for category in categories)
        text = (
            f"Available categories: {names}. Use list_available_toolsets/enable_toolset to load categories on demand."
        )
        return text if not fixed_list else f"{text} The list itself stays as it is: use call_tool for what it lacks."
    names = ", ".join(category.name for category in categories if category.loaded)
    return (
        f"You have {listed} tools from {names} categories. "
        "Other categories require server restart with different --toolsets flag. "
        "Or find a tool with tool_search and run it with call_tool, without a restart."
    )


def _where(situation: Situation) -> str:
    parts = []
    if situation.backend:
        parts.append(f"Backend: {_one_line(situation.backend)}.")
    if situation.tenant:
        parts.append(f"Tenant: {_one_line(situation.tenant)}.")
    if situation.locked is not None:
        parts.append(
            "The guard is LOCKED: guarded tools are refused; tell the user."
            if situation.locked
            else "The guard is open."
        )
    elif situation.backend:
        parts.append("The guard has not been asked yet; zorivest_diagnose tells whether it is locked.")
    if situation.read_only:
        parts.append("This session may only read.")
    return " ".join(parts)


def _one_line(text: str) -> str:
    """Foreign text must not look like a section of ours."""
    return " ".join(text.split())[:120]


def _left_out(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"Not listed, because this client's list has no room for them: {shown}. call_tool runs them by name."


def _reaching(*, next_turn: bool) -> str:
    later = " After enable_toolset the new tools appear from your next turn." if next_turn else ""
    return f"A tool that is not listed can always be run through call_tool.{later}"


def _safety(gated: int, *, forms: bool) -> str:
    text = (
        "This journal is about real money: read before you write, show amounts and symbols to the user first, "
        "and call zorivest_emergency_stop if calls repeat without progress. zorivest_diagnose answers in every state."
    )
    tools = "1 tool" if gated == 1 else f"{gated} tools"
    if gated and forms:
        text += f" Before {tools} the user is asked to confirm with a form."
    elif gated:
        needs = "needs" if gated == 1 else "need"
        text += f" {tools} {needs} a token from get_confirmation_token; the refusal says how."
    return text


def _categories(categories: Sequence[Category]) -> str:
    lines = [
        f"- {category.name} ({category.tools}, {'loaded' if category.loaded else 'not loaded'}): {category.description}"
        for category in categories
    ]
    return "Categories:\n" + "\n".join(lines) if lines else ""


def _fit(sections: Sequence[str], limit: int) -> str:
    """Whole sections, then whole lines of the first that does not fit; the opening is cut only if it must be."""
    text = sections[0].encode()[:limit].decode(errors="ignore")
    for section in sections[1:]:
        for index, line in enumerate(section.splitlines()):
            longer = text + ("\n" if index else "\n\n") + line
            if len(longer.encode()) > limit:
                return text
            text = longer
    return text
