"""The catalogue as it is shipped, and a clock that a test sets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import ToolSpec


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def specs() -> Mapping[str, ToolSpec]:
    return {spec.name: spec for spec in load().tools}
