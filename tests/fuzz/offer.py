"""The rich offer without what waits for ever or fails on purpose."""

from __future__ import annotations

from tests.mcp.protocol.offers import Rich
from zorivest_rpc.mcp.offer import Offer, PromptShelf, ResourceShelf
from zorivest_rpc.mcp.protocol.session import Session

__all__ = ["offer"]

LEFT_OUT = ("hold", "block", "open_gate", "await_stop", "raise", "add_tool", "ask_forever")
TASKS_LEFT_OUT = ("task_maybe", "task_raise", "task_progress")


def offer() -> Offer:
    rich = Rich()
    for name in (*LEFT_OUT, *TASKS_LEFT_OUT):
        rich.shelf.remove(name)
    made, anybody = rich.offer, Session()
    prompts, resources = made.prompts, made.resources
    assert prompts is not None
    assert resources is not None
    made.prompts = PromptShelf(prompt for prompt in prompts.visible(anybody) if prompt.name != "leaves")
    kept = [resource for resource in resources.visible(anybody) if resource.uri != "test://leaves"]
    made.resources = ResourceShelf(kept, resources.templates(anybody))
    return made
