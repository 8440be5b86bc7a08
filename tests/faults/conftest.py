"""The same served transport as the tests of the transports use."""

from __future__ import annotations

from tests.transports.conftest import served, writer

__all__ = ["served", "writer"]
