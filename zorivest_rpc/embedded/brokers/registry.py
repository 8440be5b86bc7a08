"""The brokers this backend knows, as rows: how they are reached, how they route, and what they can give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..vault.credentials import Credential

__all__ = ["BROKERS", "LOCAL_FOLDER", "Broker", "find_broker"]

Environment = Literal["live", "paper", "local"]
Routing = Literal["pfof", "dma", "hybrid"]
Adapter = Literal["alpaca", "tradier", "ibkr_flex", "local_folder"]

FILES = ("csv_import", "pdf_import")
SYNC = ("sync", "positions")


@dataclass(frozen=True)
class Broker:
    """One broker or one environment of it. Without an adapter its trades come as files alone."""

    broker_id: str
    name: str
    routing_type: Routing
    environment: Environment = "local"
    adapter: Adapter | None = None
    supports: tuple[str, ...] = FILES
    credentials: tuple[Credential, ...] = ()  # what a person enters, in this order
    settlement_days: int = 1
    pdt_rule: bool = True

    @property
    def needs(self) -> tuple[str, ...]:
        """What has to be entered before it can be synced."""
        return tuple(credential.name for credential in self.credentials if credential.required)


_ALPACA = (Credential("api_key", "API key ID"), Credential("api_secret", "API secret key"))
_TRADIER = (
    Credential("api_key", "access token"),
    Credential("account_id", "account", secret=False, required=False),
)
_FLEX = (
    Credential("api_key", "Flex token"),
    Credential("query_id", "Flex query number", secret=False),
    Credential("account_id", "account", secret=False),
)


BROKERS: tuple[Broker, ...] = (
    Broker(
        *("ibkr_pro", "Interactive Brokers Pro", "dma", "live", "ibkr_flex"),
        supports=("sync", *FILES),
        credentials=_FLEX,
    ),
    Broker(
        *("ibkr_lite", "Interactive Brokers Lite", "pfof", "live", "ibkr_flex"),
        supports=("sync", *FILES),
        credentials=_FLEX,
    ),
    Broker("alpaca_paper", "Alpaca (paper)", "pfof", "paper", "alpaca", SYNC, _ALPACA),
    Broker("alpaca_live", "Alpaca", "pfof", "live", "alpaca", SYNC, _ALPACA),
    Broker("tradier_sandbox", "Tradier (sandbox)", "pfof", "paper", "tradier", SYNC, _TRADIER),
    Broker("tradier_live", "Tradier", "pfof", "live", "tradier", SYNC, _TRADIER),
    Broker("schwab", "Charles Schwab", "hybrid"),
    Broker("webull", "Webull", "pfof"),
    Broker("tastytrade", "tastytrade", "pfof"),
    Broker("lightspeed", "Lightspeed", "dma"),
    Broker("thinkorswim", "thinkorswim", "hybrid"),
    Broker("ninjatrader", "NinjaTrader", "dma", pdt_rule=False),
    Broker("etrade", "E*TRADE", "hybrid"),
    Broker("robinhood", "Robinhood", "pfof"),
    Broker("local_folder", "Files in the imports folder", "hybrid", "local", "local_folder", (*SYNC, *FILES)),
)

LOCAL_FOLDER = BROKERS[-1]


def find_broker(broker_id: str) -> Broker | None:
    word = broker_id.strip().lower()
    return next((broker for broker in BROKERS if broker.broker_id == word), None)
