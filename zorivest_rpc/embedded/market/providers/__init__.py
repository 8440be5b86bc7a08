"""The providers, one module each; a new one is a module with a `PROVIDER` and a line here.

Each data type is asked in the order of `ORDER`; a provider that needs a key takes part once it has one."""

from __future__ import annotations

from ..provider import Provider
from . import (
    alpaca,
    alpha_vantage,
    api_ninjas,
    benzinga,
    edgar,
    eodhd,
    finnhub,
    fmp,
    nasdaq,
    openfigi,
    polygon,
    sec_api,
    tradier,
    yahoo,
)

__all__ = ["ORDER", "PROVIDERS", "find_provider"]

PROVIDERS: tuple[Provider, ...] = (
    yahoo.PROVIDER,
    edgar.PROVIDER,
    alpha_vantage.PROVIDER,
    polygon.PROVIDER,
    finnhub.PROVIDER,
    fmp.PROVIDER,
    eodhd.PROVIDER,
    nasdaq.PROVIDER,
    sec_api.PROVIDER,
    api_ninjas.PROVIDER,
    benzinga.PROVIDER,
    openfigi.PROVIDER,
    alpaca.PROVIDER,
    tradier.PROVIDER,
)

ORDER: dict[str, tuple[Provider, ...]] = {
    "quote": (
        yahoo.PROVIDER,
        alpha_vantage.PROVIDER,
        polygon.PROVIDER,
        finnhub.PROVIDER,
        eodhd.PROVIDER,
        api_ninjas.PROVIDER,
    ),
    "news": (finnhub.PROVIDER, benzinga.PROVIDER, yahoo.PROVIDER),
    "search": (yahoo.PROVIDER, fmp.PROVIDER, alpha_vantage.PROVIDER),
    "filings": (sec_api.PROVIDER, edgar.PROVIDER),
    "bars": (yahoo.PROVIDER, alpaca.PROVIDER, eodhd.PROVIDER, polygon.PROVIDER, tradier.PROVIDER),
    "fundamentals": (nasdaq.PROVIDER,),
}


def find_provider(name: str) -> Provider | None:
    """By name, slug or former name, in any case."""
    return next((provider for provider in PROVIDERS if provider.answers_to(name)), None)
