"""A page with faults on purpose that carries the collector.

It has an error, a slow request, a layout shift, fields without labels, a request that fails and an endless socket."""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web

__all__ = ["make_demo", "script_tag"]

_PAGE: Final = Path(__file__).parent / "static" / "demo.html"
_SLOW: Final = 1.2  # seconds
_LOGO: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">'
    '<path d="M1 7 3 3l2 2 2-4" stroke="#268" fill="none"/></svg>'
)


def script_tag(origin: str, key: str) -> str:
    """What a page carries; the first script in its head, so that nothing happens before it."""
    return f'<script src="{html.escape(f"{origin}/devtools/collector.js?k={key}")}"></script>'


def make_demo(tag: Callable[[], str]) -> web.Application:
    """`tag` is asked at each load, so that a restarted server is found again."""
    app = web.Application()

    async def page(request: web.Request) -> web.Response:
        text = _PAGE.read_text().replace("<!-- collector -->", tag())
        return web.Response(text=text, content_type="text/html", headers={"cache-control": "no-store"})

    app.router.add_get("/", page)
    app.router.add_get("/logo.svg", _logo)
    app.router.add_get("/api/account", _account)
    app.router.add_get("/api/quotes/{id}", _quote)
    app.router.add_get("/api/report", _report)
    app.router.add_post("/api/orders", _order)
    app.router.add_get("/api/prices", _prices)
    return app


async def _logo(request: web.Request) -> web.Response:
    return web.Response(text=_LOGO, content_type="image/svg+xml")


async def _account(request: web.Request) -> web.Response:
    return web.json_response({"account": "DEMO-1", "cash": 2500.5, "open_orders": []})


async def _quote(request: web.Request) -> web.Response:
    return web.json_response({"id": int(request.match_info["id"]), "bid": 101.25, "ask": 101.5, "venue": None})


async def _report(request: web.Request) -> web.Response:
    await asyncio.sleep(_SLOW)
    return web.json_response({"rows": [{"day": "Monday", "profit": 12.5}]})


async def _order(request: web.Request) -> web.Response:
    try:
        order = await request.json()
        symbol, quantity = str(order["symbol"]), int(order["quantity"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return web.json_response({"error": "symbol and quantity are needed"}, status=422)
    return web.json_response({"id": 1001, "symbol": symbol, "quantity": quantity, "state": "sent"}, status=201)


async def _prices(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(heartbeat=20)
    await socket.prepare(request)

    async def speak() -> None:
        for number in range(10_000):
            await socket.send_json({"price": round(100 + number % 7 / 4, 2)})
            await asyncio.sleep(0.5)

    speaker = asyncio.create_task(speak())
    async for message in socket:
        if message.type == WSMsgType.ERROR:
            break
    speaker.cancel()
    await asyncio.gather(speaker, return_exceptions=True)
    return socket
