"""Subscriptions that our clients share: one at the server for all of them, at most a thousand, ended with the last."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.errors import UpstreamError
from zorivest_rpc.gateway.followed import MOST, Followed

OPS = Server(name="ops", command="x")


class Asked:
    """What a member is asked to follow; `refuses` makes it fail."""

    def __init__(self) -> None:
        self.followed: set[str] = set()
        self.told: list[tuple[str, bool]] = []
        self.refuses = False

    async def follow(self, uri: str, is_wanted: bool) -> None:
        (self.followed.add if is_wanted else self.followed.discard)(uri)
        self.told.append((uri, is_wanted))
        await asyncio.sleep(0)
        if self.refuses:
            raise UpstreamError("ops", "no subscriptions here", -32601)


class House:
    def __init__(self) -> None:
        self.asked = Asked()
        self.announced: list[str] = []
        members: Any = {"ops": self.asked}
        self.followed = Followed(members, self.locate, self.announced.append, merged=0.0)

    def locate(self, uri: str) -> tuple[Server | None, str]:
        name, _, theirs = uri.partition(":")
        return (OPS, theirs) if name in ("ops", "also") else (None, "")

    async def settled(self) -> None:
        """Until nothing is under way."""
        async with asyncio.timeout(30):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)


async def test_one_subscription_serves_all_and_ends_with_the_last() -> None:
    house, wanted = House(), {"ops:a": True, "also:a": True}
    for uri in ("ops:a", "also:a"):
        house.followed.watch(uri, lambda uri=uri: wanted[uri])  # type: ignore[misc]
    await house.settled()
    assert house.asked.told == [("a", True)]
    house.followed.touched("ops", "a")
    assert house.announced == ["ops:a", "also:a"]
    wanted["ops:a"] = False
    house.followed.unwatch("ops:a")
    await house.settled()
    assert house.asked.told == [("a", True)]
    house.followed.touched("ops", "a")
    assert house.announced == ["ops:a", "also:a", "also:a"]
    wanted["also:a"] = False
    house.followed.unwatch("also:a")
    await house.settled()
    assert house.asked.told == [("a", True), ("a", False)]
    house.followed.touched("ops", "a")
    assert len(house.announced) == 3


async def test_who_comes_and_goes_at_once_leaves_nothing_behind() -> None:
    house, wanted = House(), [True]
    house.followed.watch("ops:a", lambda: wanted[0])
    wanted[0] = False
    house.followed.unwatch("ops:a")
    await house.settled()
    assert house.asked.followed == set()
    assert house.asked.told in ([], [("a", True), ("a", False)])


async def test_what_is_of_no_server_is_not_followed() -> None:
    house = House()
    house.followed.watch("zorivest://guard", lambda: True)
    house.followed.unwatch("zorivest://guard")
    house.followed.touched("ops", "a")
    await house.settled()
    assert (house.asked.told, house.announced) == ([], [])


async def test_a_thousand_of_one_server_are_enough(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    for number in range(MOST + 1):
        house.followed.watch(f"ops:{number}", lambda: True)
    await house.settled()
    assert len(house.asked.followed) == MOST == 1_000
    assert "more than 1000 resources" in caplog.text


async def test_a_server_that_refuses_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.asked.refuses = True
    with caplog.at_level(logging.INFO):
        house.followed.watch("ops:" + "a" * 300, lambda: True)
        await house.settled()
    assert f"{'a' * 200} cannot be followed" in caplog.text
    assert "a" * 201 not in caplog.text


async def test_nothing_is_asked_of_a_server_after_the_end() -> None:
    house = House()
    await house.followed.close()
    house.followed.watch("ops:a", lambda: True)
    await house.settled()
    assert house.asked.told == []
