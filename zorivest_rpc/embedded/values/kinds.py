"""The sides of a fill and the classes of what is traded, as the journal stores them and every room reads them."""

from __future__ import annotations

import enum

__all__ = ["AssetClass", "Side"]


class Side(enum.StrEnum):
    """Bought or sold; opening and closing follow from the position."""

    BOT = "BOT"
    SLD = "SLD"

    @property
    def opposite(self) -> Side:
        return Side.SLD if self is Side.BOT else Side.BOT


class AssetClass(enum.StrEnum):
    """What was traded."""

    EQUITY = "EQUITY"
    OPTION = "OPTION"
    FUTURE = "FUTURE"
    FOREX = "FOREX"
    CRYPTO = "CRYPTO"
    BOND = "BOND"
    MUTUAL_FUND = "MUTUAL_FUND"
