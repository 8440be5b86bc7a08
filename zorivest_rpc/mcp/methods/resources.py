"""resources/*: lists, reading, and the legacy subscriptions to single resources."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.announce import check_subscriptions
from zorivest_rpc.mcp.call import Call, Scope
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.methods.inputs import MoreInput, drive
from zorivest_rpc.mcp.methods.paging import next_cursor, start_of
from zorivest_rpc.mcp.offer import RESOURCES, Resource, ResourceShelf, Template
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, RESOURCE_NOT_FOUND, dumps
from zorivest_rpc.mcp.protocol.results import EMPTY, Result
from zorivest_rpc.mcp.protocol.types import ListItems, ReadResource

__all__ = ["Resources"]


class Resources:
    def __init__(self, core: Core, resources: ResourceShelf) -> None:
        self._core = core
        self._resources = resources

    def list(self, exchange: Exchange, params: ListItems) -> Result:
        listed = self._resources.visible(exchange.session)
        return self._page(exchange, "resources/list", "resources", params, listed)

    def templates(self, exchange: Exchange, params: ListItems) -> Result:
        listed = self._resources.templates(exchange.session)
        return self._page(exchange, "resources/templates/list", "resourceTemplates", params, listed)

    def _page(
        self, exchange: Exchange, method: str, member: str, params: ListItems, listed: Sequence[Resource | Template]
    ) -> Result:
        core = self._core
        size, version = core.offer.page_size, [entry.name for entry in listed]
        start = start_of(core, method, params, version)
        if start == 0:
            core.announcer.note_list(exchange.conversation, RESOURCES, int(member != "resources"))
        members = b'"%b":%b' % (member.encode(), dumps([entry.wire() for entry in listed[start : start + size]]))
        return Result(members + next_cursor(core, method, start + size, len(listed), version), cache=core.offer.cache)

    def read(self, exchange: Exchange, params: ReadResource) -> Coroutine[Any, Any, Result]:
        found, variables, scope = self._find(exchange, params.uri)
        call = Call(params.uri, dict(variables), exchange.session, exchange, scope=scope)
        return self._run(exchange, found, call, params)

    def _find(self, exchange: Exchange, uri: str) -> tuple[Resource | Template, dict[str, str], Scope]:
        try:
            asked, scope = self._resources.admit(exchange.session, exchange.headers, uri)
        except ToolError as error:
            raise ProtocolError(INVALID_PARAMS, error.text, {"code": error.code}) from None
        found = self._resources.find(exchange.session, asked, scope)
        if found is None:
            raise not_found(uri)
        return *found, scope

    async def _run(self, exchange: Exchange, found: Resource | Template, call: Call, params: ReadResource) -> Result:
        try:
            contents = await drive(self._core, exchange, "resources/read", call, found.read, params)
        except MoreInput as more:
            return more.result
        except KeyError:
            raise not_found(call.name) from None
        return Result(b'"contents":' + dumps(contents), call.scope.meta, cache=self._core.offer.cache)

    def subscribe(self, exchange: Exchange, params: ReadResource) -> Result:
        self._find(exchange, params.uri)
        session = exchange.session
        uri = self._resources.spell(session, exchange.headers, params.uri)
        if not self._resources.may_follow(session, uri):
            raise not_found(params.uri)
        if uri in session.subscriptions:
            return EMPTY
        check_subscriptions([*session.subscriptions, uri])
        session.subscriptions |= {uri}
        self._core.announcer.watch(uri)
        self._core.remember(session)
        return EMPTY

    def unsubscribe(self, exchange: Exchange, params: ReadResource) -> Result:
        session = exchange.session
        uri = self._resources.spell(session, exchange.headers, params.uri)
        if uri in session.subscriptions:
            session.subscriptions -= {uri}
            self._core.announcer.unwatch((uri,))
            self._core.remember(session)
        return EMPTY


def not_found(uri: str) -> ProtocolError:
    return ProtocolError(RESOURCE_NOT_FOUND, f"no resource {uri!r}; resources/list names them", {"uri": uri})
