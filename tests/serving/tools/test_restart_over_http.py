"""A restart across real sockets: the new process knows no session, and the tool leaves one behind."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_aiohttp import AiohttpServer

from tests.serving.tools.stage import Clock, kit, make_call, payload
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.tools.diagnostics import Diagnostics
from zorivest_rpc.serving.tools.service import Service


class Process:
    """A backend that becomes another one when it is asked to leave, and answers once more before it does."""

    def __init__(self) -> None:
        self.instance, self.unlocked, self.polls_left = 1, 0, -1
        self.tokens: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/v1/auth/unlock", self._unlock)
        app.router.add_get("/api/v1/health", self._health)
        app.router.add_get("/api/v1/service/status", self._status)
        app.router.add_post("/api/v1/service/graceful-shutdown", self._leave)
        return app

    def _known(self, request: web.Request) -> bool:
        return request.headers.get("Authorization", "").removeprefix("Bearer ") in self.tokens

    async def _unlock(self, request: web.Request) -> web.Response:
        self.unlocked += 1
        token = f"tok_{self.instance}_{self.unlocked}"
        self.tokens.add(token)
        return web.json_response({"session_token": token, "role": "admin", "expires_in": 3600})

    async def _health(self, request: web.Request) -> web.Response:
        if self.polls_left == 0:
            self.instance, self.tokens = self.instance + 1, set()
        self.polls_left -= 1
        return web.json_response({"status": "ok", "instance_id": f"i{self.instance}", "version": "1.0.0"})

    async def _status(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return web.json_response({"error": "no_session", "detail": "unlock first"}, status=403)
        return web.json_response({"pid": self.instance, "uptime_seconds": 0, "memory_mb": 1.0, "cpu_percent": 0.0})

    async def _leave(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return web.json_response({"error": "no_session", "detail": "unlock first"}, status=403)
        self.polls_left = 1
        return web.json_response({"status": "shutting_down"})


async def test_after_a_restart_the_backend_is_unlocked_again(aiohttp_server: AiohttpServer) -> None:
    process, clock = Process(), Clock()
    server = await aiohttp_server(process.app())
    backend = HttpBackend(str(server.make_url("")), lambda: "zrv_sk_test")
    try:
        service = Service(kit(backend), lambda call: "/logs", clock=clock, sleep=clock.sleep)
        found = payload(await service.restart(make_call("zorivest_service_restart", confirm="RESTART")))
        assert (found["status"], found["pid"]) == ("restarted", 2)
        assert clock.slept == [2.0, 2.0]
        assert process.unlocked == 2
        assert (await backend.ask(Request("GET", "/service/status"))).value["pid"] == 2
        assert process.unlocked == 2
    finally:
        await backend.close()


async def test_a_diagnosis_of_a_real_address_where_nobody_listens() -> None:
    from zorivest_rpc.serving.catalog.load import load_clients
    from zorivest_rpc.serving.modes.detect import detect

    async with TestServer(web.Application()) as server:
        address = str(server.make_url(""))
    backend = HttpBackend(address, lambda: "zrv_sk_planted")
    profile = detect(load_clients(), name="cursor")
    tool: Any = Diagnostics(
        kit(backend),
        lambda verbose: {"warnings": []},
        lambda: 0,
        lambda session: profile,
        version="0",
        runtime="Python",
    )
    try:
        found = payload(await tool.diagnose(make_call("zorivest_diagnose")))
    finally:
        await backend.close()
    assert found["backend"]["reachable"] is False
    assert {problem["code"] for problem in found["problems"]} <= {"backend_unreachable", "backend_down"}
    assert "zrv_sk_planted" not in str(found)
