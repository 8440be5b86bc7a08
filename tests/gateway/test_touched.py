"""How often our clients hear of a resource of another server that changes."""

from __future__ import annotations

import asyncio

from tests.gateway.fake import Noted
from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.followed import Followed

OPS = Server(name="ops", endpoint="http://127.0.0.1:9/mcp")
SHOWN = "upstream:ops:note://a"


async def test_a_resource_that_changes_all_the_time_is_told_at_once_and_then_now_and_then() -> None:
    told = Noted()
    followed = Followed({}, lambda uri: (OPS, "note://a"), told.append)
    followed.watch(SHOWN, lambda: True)
    for _ in range(1000):
        followed.touched("ops", "note://a")
    assert told == [SHOWN]
    await told.reach(2)  # all the others are one
    assert told == [SHOWN, SHOWN]
    await followed.close()


async def test_what_is_followed_by_none_of_ours_is_not_told() -> None:
    told: list[str] = []
    followed = Followed({}, lambda uri: (OPS, "note://a"), told.append)
    followed.touched("ops", "note://a")
    followed.watch(SHOWN, lambda: False)
    await asyncio.sleep(0)
    followed.touched("ops", "note://a")
    assert told == []
    await followed.close()
