"""Answers in the shapes that the providers document."""

from __future__ import annotations

from typing import Any

CHART: dict[str, Any] = {
    "chart": {
        "result": [
            {
                "meta": {
                    "currency": "USD",
                    "symbol": "AAPL",
                    "regularMarketPrice": 190.25,
                    "chartPreviousClose": 188.0,
                    "regularMarketTime": 1773154800,
                    "regularMarketDayHigh": 191.5,
                    "regularMarketDayLow": 187.9,
                    "regularMarketVolume": 51000000,
                },
                "timestamp": [1773063000, 1773149400, 1773149460],
                "indicators": {
                    "quote": [
                        {
                            "open": [187.5, 188.5, None],
                            "high": [189.0, 191.5, None],
                            "low": [186.0, 187.9, None],
                            "close": [188.0, 190.25, None],
                            "volume": [48000000, 51000000, None],
                        }
                    ],
                    "adjclose": [{"adjclose": [187.9, 190.25, None]}],
                },
            }
        ],
        "error": None,
    }
}
NOT_FOUND = {"chart": {"result": None, "error": {"code": "Not Found", "description": "No data found"}}}
YAHOO_SEARCH: dict[str, Any] = {
    "quotes": [
        {"symbol": "AAPL", "longname": "Apple Inc.", "exchDisp": "NASDAQ", "quoteType": "EQUITY"},
        {"symbol": "APC.F", "shortname": "APPLE INC", "exchange": "FRA", "quoteType": "EQUITY"},
        {"symbol": "APPLE-USD", "shortname": "Apple coin", "quoteType": "CRYPTOCURRENCY"},
        {"symbol": "AP=F", "shortname": "Apple future", "quoteType": "FUTURE"},
    ],
    "news": [
        {
            "title": "Apple rises",
            "publisher": "Wire",
            "link": "https://example.com/a",
            "providerPublishTime": 1773150000,
            "relatedTickers": ["AAPL"],
        }
    ],
}
GLOBAL_QUOTE = {
    "Global Quote": {
        "01. symbol": "AAPL",
        "02. open": "188.5000",
        "03. high": "191.5000",
        "04. low": "187.9000",
        "05. price": "190.1000",
        "06. volume": "51000000",
        "07. latest trading day": "2026-03-10",
        "08. previous close": "188.0000",
        "09. change": "2.1000",
        "10. change percent": "1.1170%",
    }
}
BEST_MATCHES = {
    "bestMatches": [
        {
            "1. symbol": "AAPL",
            "2. name": "Apple Inc",
            "3. type": "Equity",
            "4. region": "United States",
            "8. currency": "USD",
        }
    ]
}
POLYGON_PREV = {
    "ticker": "AAPL",
    "status": "OK",
    "resultsCount": 1,
    "results": [
        {"T": "AAPL", "v": 5.1e7, "vw": 189.9, "o": 188.5, "c": 190.2, "h": 191.5, "l": 187.9, "t": 1773144000000}
    ],
}
FINNHUB_QUOTE = {"c": 190.3, "d": 2.3, "dp": 1.2234, "h": 191.5, "l": 187.9, "o": 188.5, "pc": 188.0, "t": 1773154800}
FINNHUB_NEWS = [
    {
        "category": "company",
        "datetime": 1773150000,
        "headline": "Apple opens a store",
        "id": 1,
        "related": "AAPL",
        "source": "Reuters",
        "summary": "A store was opened.",
        "url": "https://example.com/store",
    }
]
FMP_SEARCH = [
    {
        "symbol": "AAPL",
        "name": "Apple Inc.",
        "currency": "USD",
        "stockExchange": "NASDAQ Global Select",
        "exchangeShortName": "NASDAQ",
    }
]
EODHD_QUOTE = {
    "code": "AAPL.US",
    "timestamp": 1773154800,
    "gmtoffset": 0,
    "open": 188.5,
    "high": 191.5,
    "low": 187.9,
    "close": 190.4,
    "volume": 51000000,
    "previousClose": 188.0,
    "change": 2.4,
    "change_p": 1.2766,
}
EODHD_DAY = [
    {
        "date": "2026-03-09",
        "open": 187.5,
        "high": 189.0,
        "low": 186.0,
        "close": 188.0,
        "adjusted_close": 187.9,
        "volume": 48000000,
    }
]
NINJAS_QUOTE = {
    "ticker": "AAPL",
    "name": "Apple Inc.",
    "price": 190.5,
    "exchange": "NASDAQ",
    "updated": 1773154800,
    "currency": "USD",
    "volume": 51000000,
}
BENZINGA_NEWS = [
    {
        "id": 1,
        "title": "Apple in focus",
        "teaser": "What to watch.",
        "url": "https://example.com/focus",
        "created": "Tue, 10 Mar 2026 09:40:00 -0400",
        "stocks": [{"name": "AAPL"}],
    }
]
COMPANY_TICKERS = {
    "0": {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."},
    "1": {"cik_str": 1067983, "ticker": "BRK-B", "title": "BERKSHIRE HATHAWAY INC"},
}
SUBMISSIONS = {
    "cik": "320193",
    "name": "Apple Inc.",
    "tickers": ["AAPL"],
    "filings": {
        "recent": {
            "accessionNumber": ["0000320193-26-000010", "0000320193-26-000009"],
            "filingDate": ["2026-01-30", "2026-01-29"],
            "reportDate": ["2025-12-27", ""],
            "form": ["10-Q", "8-K"],
            "primaryDocument": ["aapl-20251227.htm", "ea0.htm"],
        },
        "files": [],
    },
}
SEC_API_FILINGS: dict[str, Any] = {
    "total": {"value": 1, "relation": "eq"},
    "filings": [
        {
            "id": "x",
            "accessionNo": "0000320193-26-000010",
            "cik": "320193",
            "ticker": "AAPL",
            "companyName": "Apple Inc.",
            "formType": "10-Q",
            "filedAt": "2026-01-30T06:01:32-05:00",
            "periodOfReport": "2025-12-27",
            "linkToFilingDetails": "https://www.sec.gov/Archives/edgar/data/320193/x.htm",
        }
    ],
}
ALPACA_BAR = {
    "t": "2026-03-09T04:00:00Z",
    "o": 187.5,
    "h": 189.0,
    "l": 186.0,
    "c": 188.0,
    "v": 48000000,
    "n": 500000,
    "vw": 187.7,
}
TRADIER_DAY = {"date": "2026-03-09", "open": 187.5, "high": 189.0, "low": 186.0, "close": 188.0, "volume": 48000000}
FIGI = {
    "figi": "BBG000B9XRY4",
    "name": "APPLE INC",
    "ticker": "AAPL",
    "exchCode": "US",
    "compositeFIGI": "BBG000B9XRY4",
    "securityType": "Common Stock",
    "marketSector": "Equity",
}
FMP_STABLE_SEARCH = [
    {
        "symbol": "AAPL",
        "name": "Apple Inc.",
        "currency": "USD",
        "exchangeFullName": "NASDAQ Global Select",
        "exchange": "NASDAQ",
    }
]
SHARADAR: dict[str, Any] = {
    "datatable": {
        "data": [
            ["AAPL", "MRY", "2025-12-31", "2025-09-27", "2025-09-27", "2025-10-31", 416161000000, 7.46, None],
            ["AAPL", "MRY", "2024-12-31", "2024-09-28", "2024-09-28", "2024-11-01", 391035000000, 6.08, 0.25],
        ],
        "columns": [
            {"name": "ticker", "type": "String"},
            {"name": "dimension", "type": "String"},
            {"name": "calendardate", "type": "Date"},
            {"name": "datekey", "type": "Date"},
            {"name": "reportperiod", "type": "Date"},
            {"name": "lastupdated", "type": "Date"},
            {"name": "revenue", "type": "Integer"},
            {"name": "epsdil", "type": "double"},
            {"name": "dps", "type": "double"},
        ],
    },
    "meta": {"next_cursor_id": None},
}
