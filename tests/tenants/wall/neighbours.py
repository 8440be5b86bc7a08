"""Other MCP servers behind the wall: one that all tenants share, one for some of them, and one with a token for each
tenant, which puts the name of the token's tenant into every value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, serving
from tests.tenants.wall.eye import Leak, names_in
from tests.tenants.wall.stage import mark

__all__ = ["Neighbours", "neighbours"]

_PROFILE = """
[profiles.default]
tool_confirmation_mode = "mcp-only"
approve_tool = ["common__*", "some__*", "own__*", "configure", "generate"]
tool_retry_attempts = 1
[[profiles.default.mcp_servers]]
name = "common"
endpoint = "{common}"
shared = true
[[profiles.default.mcp_servers]]
name = "some"
endpoint = "{some}"
tenants = [{some_tenants}]
[[profiles.default.mcp_servers]]
name = "own"
endpoint = "{own}"
tenants = [{own_tenants}]
auth_bearer_env_by_tenant = {{ {tokens} }}
"""
_FORM = {"type": "object", "properties": {"yes": {"type": "boolean"}}}


class _Own(Fake):
    """The server with a token for each tenant."""

    def __init__(self, faults: list[Leak]) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self._faults = faults

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request, await request.read())
        given = re.fullmatch(r"Bearer tok-of-(tenant-\d\d)", seen.headers.get("Authorization", ""))
        tenant = given[1] if given else ""
        _judge(self._faults, seen, {tenant})
        if seen.method == "tools/list":
            tools = [TOOL, {**TOOL, "name": "ask"}]
            lone = {**TOOL, "name": f"of_{tenant[-2:]}", "description": f"Echo {mark(tenant)}"}
            return seen.result(tools=[*tools, lone])
        if seen.method == "tools/call":
            return self._call(seen, tenant)
        return self.answer(seen)

    def _call(self, seen: Seen, tenant: str) -> web.StreamResponse:
        own = mark(tenant)
        done: dict[str, Any] = {
            "content": [{"type": "text", "text": own}],
            "structuredContent": {"of": own},
            "resultType": "complete",
        }
        if seen.params["name"] != "ask":
            self.calls[tenant] += 1
            return seen.result(**done)
        if "inputResponses" in seen.params:
            if seen.params.get("requestState") != own:
                self._faults.append(Leak(f"the state of {seen.params.get('requestState')} was brought to {tenant}"))
            return seen.result(**done)
        question = {"mode": "form", "message": f"Sure of {own}?", "requestedSchema": _FORM}
        asked = {"q": {"method": "elicitation/create", "params": question}}
        return seen.result(resultType="input_required", requestState=own, inputRequests=asked)


class _Plain(Fake):
    """A server that is to learn nothing of whom it is used for."""

    def __init__(self, faults: list[Leak]) -> None:
        super().__init__()
        self._faults = faults

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request, await request.read())
        _judge(self._faults, seen, set())
        return self.answer(seen)


def _judge(faults: list[Leak], seen: Seen, own: set[str]) -> None:
    """A server is told of no tenant but the one whose token it is shown, and of none in anything else."""
    headers = " ".join(f"{name}={value}" for name, value in seen.headers.items() if name != "Authorization")
    told = names_in(f"{headers} {seen.body.decode()}") - ({*own} if "inputResponses" in seen.params else set())
    if told or names_in(seen.headers.get("Authorization", "")) - own:
        faults.append(Leak(f"another server was told of {sorted(told)}: {headers} {seen.body[:400]!r}"))


class Neighbours:
    """`whose` says by server who has it."""

    def __init__(self, urls: dict[str, str], own: _Own, some_tenants: list[str], own_tenants: list[str]) -> None:
        self.own = own
        self.whose: dict[str, list[str] | None] = {"common": None, "some": some_tenants, "own": own_tenants}
        self.environ = {_variable(each): f"tok-of-{each}" for each in own_tenants}
        tokens = ", ".join(f'{each} = "{_variable(each)}"' for each in own_tenants)
        lists = {"some_tenants": _quote(some_tenants), "own_tenants": _quote(own_tenants)}
        self._text = _PROFILE.format(**urls, **lists, tokens=tokens)

    def write(self, directory: Path) -> str:
        file = directory / "config.toml"
        file.write_text(self._text)
        return str(file)

    def has(self, server: str, tenant: str) -> bool:
        tenants = self.whose[server]
        return tenants is None or tenant in tenants


def _variable(tenant: str) -> str:
    return f"MCP_OF_{tenant.upper().replace('-', '_')}"


def _quote(tenants: list[str]) -> str:
    return ", ".join(f'"{each}"' for each in tenants)


@asynccontextmanager
async def neighbours(some_tenants: list[str], own_tenants: list[str], faults: list[Leak]) -> AsyncIterator[Neighbours]:
    fakes: dict[str, Any] = {"common": _Plain(faults), "some": _Plain(faults), "own": _Own(faults)}
    async with AsyncExitStack() as stack:
        urls = {name: await stack.enter_async_context(serving(fake.handle)) for name, fake in fakes.items()}
        yield Neighbours(urls, fakes["own"], some_tenants, own_tenants)
