"""Makes the kept journals: `python -m tests.embedded.kept.make DIRECTORY`.

It was run once, with release 0.1 and schema version 11. Its files are fixtures and are never made again: what has to be
proven is that a later release opens what that one wrote. For another release make another pair beside them."""

from __future__ import annotations

import asyncio
import gzip
import sys
from datetime import date
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from tests.embedded.conftest import CHEAP, Caller
from tests.embedded.kept.clock import NOW, fixed_clock
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import cipher_driver
from zorivest_rpc.embedded.demo import load as demo
from zorivest_rpc.embedded.demo import story as demo_data
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import Kdf, new_api_key
from zorivest_rpc.embedded.vault.keystore import store_key

PASSPHRASE = "correct horse battery staple"
OWN = "OWN-1"


def _trade(number: int, time: str, instrument: str, action: str, quantity: str, price: str, **more: Any) -> Any:
    return {
        "exec_id": f"KEPT-{number}",
        "time": time,
        "instrument": instrument,
        "action": action,
        "quantity": quantity,
        "price": price,
        "account_id": OWN,
        **more,
    }


# One pair or more of every asset class, with multipliers other than 1, a short sale, a wash sale and fractions.
TRADES = (
    _trade(1, "2024-02-01T15:00:00Z", "MSFT", "BOT", "100", "400.10", commission="1.00", notes="a first position"),
    _trade(2, "2024-05-20T15:00:00Z", "MSFT", "SLD", "40", "425.55", commission="1.00", fees="0.12"),
    _trade(3, "2024-06-03T15:00:00Z", "TSLA", "SLD", "20", "180.25"),
    _trade(4, "2024-06-07T15:00:00Z", "TSLA", "BOT", "20", "171.00"),
    _trade(5, "2024-07-01T15:00:00Z", "INTC", "BOT", "200", "31.00"),
    _trade(6, "2024-08-02T15:00:00Z", "INTC", "SLD", "200", "21.50"),
    _trade(7, "2024-08-14T15:00:00Z", "INTC", "BOT", "120", "20.10"),
    _trade(8, "2024-09-03T14:30:00Z", "AAPL 241220 C 230", "BOT", "2", "6.35", commission="1.30"),
    _trade(9, "2024-10-15T14:30:00Z", "AAPL 241220 C 230", "SLD", "1", "9.10", commission="0.65"),
    _trade(10, "2024-09-10T13:30:00Z", "KO 241018 P 65", "SLD", "1", "0.80"),
    _trade(11, "2024-11-04T14:30:00Z", "ES 12-24", "BOT", "2", "5740.25"),
    _trade(12, "2024-11-06T14:30:00Z", "ES 12-24", "SLD", "2", "5921.50", commission="4.50"),
    _trade(13, "2024-11-10T08:00:00Z", "BTC-USD", "BOT", "0.125", "76800"),
    _trade(14, "2025-01-20T08:00:00Z", "BTC-USD", "SLD", "0.0625", "104200"),
    _trade(15, "2024-11-11T08:00:00Z", "EUR/USD", "BOT", "10000", "1.06512"),
    _trade(16, "2024-11-12T08:00:00Z", "EUR/USD", "SLD", "10000", "1.06134"),
    _trade(17, "2024-12-02T21:00:00Z", "VFIAX", "BOT", "10.5", "557.33"),
    _trade(18, "2025-02-03T15:00:00Z", "NVDA", "BOT", "30", "116.66", account_id="OWN-2"),
    _trade(19, "2025-03-03T15:00:00Z", "NVDA", "SLD", "30", "114.06", account_id="OWN-2"),
)
WRITES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/accounts", {"account_id": OWN, "name": "Own account", "account_type": "broker"}),
    ("POST", "/accounts", {"account_id": "OWN-2", "name": "Second", "account_type": "broker"}),
    *(("POST", "/trades", trade) for trade in TRADES),
    ("POST", "/corporate-actions", {"kind": "split", "symbol": "MSFT", "numerator": 2, "effective": "2025-01-06"}),
    (
        "POST",
        "/corporate-actions",
        {"kind": "expiry", "symbol": "KO 241018 P 65", "account_id": OWN, "effective": "2024-10-18"},
    ),
    (
        "POST",
        "/corporate-actions",
        {"kind": "exercise", "symbol": "AAPL 241220 C 230", "account_id": OWN, "effective": "2024-12-20"},
    ),
    ("POST", "/trades/KEPT-2/report", {"setup_quality": "A", "execution_quality": "B", "followed_plan": True}),
    ("POST", "/mistakes", {"trade_id": "KEPT-6", "category": "no_stop", "estimated_cost": "750.00", "notes": "none"}),
    (
        "POST",
        "/trade-plans",
        {
            "ticker": "AMD",
            "direction": "long",
            "conviction": "medium",
            "strategy_name": "pullback",
            "entry_price": 100,
            "stop_loss": 95,
            "target_price": 112,
            "entry_conditions": ["above the 50 day average"],
        },
    ),
    ("POST", "/fees/periodic", {"account_id": OWN, "fee_type": "platform", "amount": "14.50", "month": "2024-11"}),
    ("PUT", "/settings", {"ui.theme": "dark", "accounts.auto_create": "false"}),
    ("PUT", "/tax/profiles/2024", {"filing_status": "single", "agi_estimate": 90000, "state_tax_rate": "0.05"}),
    ("POST", "/tax/quarterly/payment", {"tax_year": 2024, "quarter": "Q4", "payment_amount": 1200, "confirm": True}),
    ("POST", "/tax/wash-sales", {}),  # makes the lots
    ("PUT", "/auth/passphrase", {"passphrase": PASSPHRASE}),
    (
        "PUT",
        "/mcp-guard/config",
        {"is_enabled": True, "calls_per_minute_limit": 7, "calls_per_hour_limit": 77},
    ),
)


async def make(place: Path, *, encrypted: bool, locked: bool) -> None:
    directory, key = DataDir(place).create(), new_api_key()
    source = store_key(directory, key, use_keyring=False)
    kdf = Kdf() if encrypted else CHEAP
    driver = cipher_driver() if encrypted else None
    backend = Embedded.create(directory, key, key_source=source, driver=driver, kdf=kdf)
    try:
        async with TestClient(TestServer(create_app(backend))) as client:
            admin = await Caller(client).unlock(key)
            await _load_demo(backend)
            for method, path, body in WRITES:
                response = await admin.ask(method, path, body)
                assert response.status < 300, (path, body, await response.text())
            await admin.expect(201, "POST", "/auth/keys", {"label": "assistant", "role": "read-write"})
            if locked:
                await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "left locked"})
    finally:
        await backend.close()


async def _load_demo(backend: Embedded) -> None:
    """The demo story that ends on a fixed day; of its bars the last ones, which keeps the file small."""
    story = demo_data.tell(date(2025, 6, 30))
    story = story._replace(bars={symbol: bars[-30:] for symbol, bars in story.bars.items()})
    picture = demo.chart(demo_data.tell(date(2025, 6, 30)))
    await backend.database().write(lambda conn: demo.load(conn, story, picture, NOW))


def main(root: Path) -> None:
    with fixed_clock():
        asyncio.run(make(root / "encrypted", encrypted=True, locked=True))
        asyncio.run(make(root / "plain", encrypted=False, locked=False))
    plain = DataDir(root / "plain")
    (plain.root / "zorivest.db.gz").write_bytes(gzip.compress(plain.database.read_bytes(), 9, mtime=0))
    plain.database.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
