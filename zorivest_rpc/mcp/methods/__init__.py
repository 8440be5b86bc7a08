"""One function per MCP method, and the table that the dispatcher runs them from.

A method of something that is not offered is not in the table, so it does not exist.
"""

from __future__ import annotations

from zorivest_rpc.mcp.dispatcher import Method
from zorivest_rpc.mcp.methods.completion import Completions
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.methods.lifecycle import Lifecycle
from zorivest_rpc.mcp.methods.prompts import Prompts
from zorivest_rpc.mcp.methods.resources import Resources
from zorivest_rpc.mcp.methods.tasks import Tasks
from zorivest_rpc.mcp.methods.tools import Tools

__all__ = ["Core", "build"]


def build(core: Core) -> dict[str, Method]:
    offer = core.offer
    lifecycle = Lifecycle(core)
    table: dict[str, Method] = {
        "initialize": lifecycle.initialize,
        "ping": lifecycle.ping,
        "server/discover": lifecycle.discover,
        "subscriptions/listen": core.announcer.listen,
    }
    if offer.logging:
        table["logging/setLevel"] = lifecycle.set_level
    if offer.tools is not None:
        tools = Tools(core, offer.tools)
        table |= {"tools/list": tools.list, "tools/call": tools.call}
    if offer.prompts is not None:
        prompts = Prompts(core, offer.prompts)
        table |= {"prompts/list": prompts.list, "prompts/get": prompts.get}
    if offer.resources is not None:
        resources = Resources(core, offer.resources)
        table |= {
            "resources/list": resources.list,
            "resources/templates/list": resources.templates,
            "resources/read": resources.read,
            "resources/subscribe": resources.subscribe,
            "resources/unsubscribe": resources.unsubscribe,
        }
    if offer.complete is not None:
        table["completion/complete"] = Completions(offer.complete).complete
    if offer.tasks:
        tasks = Tasks(core)
        table |= {
            "tasks/get": tasks.get,
            "tasks/update": tasks.update,
            "tasks/cancel": tasks.cancel,
            "tasks/result": tasks.result,
            "tasks/list": tasks.list,
        }
    return table
