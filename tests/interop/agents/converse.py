"""The conversation that every agent holds with the journal, and what is seen of it on all three sides.

List, call, a gated write that the user declines and one that the user approves, a toolset enabled, and a tool of it
called: by its own name where the agent has it by then, and through call_tool where it has not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.agents.drive import AGENTS, Question, User
from tests.interop.agents.home import Home
from tests.interop.agents.model import serve_model
from tests.interop.agents.script import Offered, Say, Script, Step, Use

Json = Any
TRADE = {
    "exec_id": "agent-1",
    "instrument": "QQQ STK",
    "action": "BOT",
    "quantity": 7,
    "price": 512.5,
    "account_id": "DEMO",
}
FORM = {"instrument": "QQQ", "quantity": 7}
ENABLED = "get_tax_lots"
ARGUMENTS = {"account_id": "DEMO"}
DONE = Say("Done.")


class Seen(NamedTuple):
    """`turns` has, by name, the results that the model was shown and the questions that the user was asked."""

    turns: dict[str, tuple[list[str], list[Question]]]
    offered: dict[str, list[Offered]]
    messages: list[tuple[str, Json]]
    unknown: list[str]


async def converse(name: str, root: Path) -> Seen:
    home = Home.make(root)
    home.load_demo()
    script, user = Script(), User(FORM)
    turns: dict[str, tuple[list[str], list[Question]]] = {}
    offered: dict[str, list[Offered]] = {}
    async with serve_model(script) as model:
        agent = AGENTS[name](home, script, user, model.url)
        await agent.open()

        async def play(turn: str, *steps: Step) -> list[str]:
            asked, seen = len(user.asked), len(script.seen)
            results = await agent.turn(*steps, DONE)
            turns[turn] = (results, user.asked[asked:])
            offered[turn] = script.seen[seen:]
            return results

        try:
            await play("call", Use("get_settings", {"key": "ui.theme"}))
            user.agrees = False
            await play("declined", *_reach(name, "create_trade"), Use("create_trade", TRADE))
            user.agrees = True
            results = await play("approved", *_reach(name, "create_trade"), Use("create_trade", TRADE))
            if "get_confirmation_token" in results[-1]:
                await _with_token(play)
            await play("enabled", Use("enable_toolset", {"toolset_name": "tax"}), Use(ENABLED, ARGUMENTS))
            await play("used", *_reach(name, ENABLED), Use(ENABLED, ARGUMENTS))
            await play("through", Use("call_tool", {"name": ENABLED, "arguments": ARGUMENTS}))
            await play("written", Use("call_tool", {"name": "list_trades", "arguments": {"limit": 1}}))
        finally:
            await agent.close()
            home.stop_backend()
    return Seen(turns, offered, home.messages(), model.unknown)


def _reach(name: str, tool: str) -> list[Step]:
    """Claude Code shows its model a deferred tool only after its own search has found it."""
    if name != "claude-code":
        return []
    return [Use("ToolSearch", {"query": f"select:mcp__zorivest__{tool}", "max_results": 5}, own=True)]


async def _with_token(play: Any) -> None:
    """What a model does that reads the refusal: fetch a token for exactly this call, and repeat it."""
    wanted = {"action": "create_trade", "params_summary": "buy 7 QQQ", "arguments": TRADE}
    token = re.search(r"ctk_[\w-]+", (await play("token", Use("get_confirmation_token", wanted)))[-1])
    assert token is not None
    await play("with token", Use("create_trade", {**TRADE, "confirmation_token": token[0]}))
