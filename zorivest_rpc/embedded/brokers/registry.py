"""The brokers this backend knows, as rows: how they are reached, how they route, and what they can give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
    needs: tuple[str, ...] = ()  # what has to be entered before it can be synced
    settlement_days: int = 1
    pdt_rule: bool = True


BROKERS: tuple[Broker, ...] = (
    Broker(
        *("ibkr_pro", "Interactive Brokers Pro", "dma", "live", "ibkr_flex"),
        supports=("sync", *FILES),
        needs=("api_key", "query_id", "account_id"),
    ),
    Broker(
        *("ibkr_lite", "Interactive Brokers Lite", "pfof", "live", "ibkr_flex"),
        supports=("sync", *FILES),
        needs=("api_key", "query_id", "account_id"),
    ),
    Broker("alpaca_paper", "Alpaca (paper)", "pfof", "paper", "alpaca", SYNC, ("api_key", "api_secret")),
    Broker("alpaca_live", "Alpaca", "pfof", "live", "alpaca", SYNC, ("api_key", "api_secret")),
    Broker("tradier_sandbox", "Tradier (sandbox)", "pfof", "paper", "tradier", SYNC, ("api_key",)),
    Broker("tradier_live", "Tradier", "pfof", "live", "tradier", SYNC, ("api_key",)),
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
