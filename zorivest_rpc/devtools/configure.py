"""`configure`: notes, noise rules, clearing, and what pages collect."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

import msgspec

from zorivest_rpc.devtools.buffers import BufferName
from zorivest_rpc.devtools.frames import Level, WsMode
from zorivest_rpc.devtools.kit import iso
from zorivest_rpc.devtools.noise import Category, Rule
from zorivest_rpc.devtools.store import Store
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.errors import InvalidArguments, ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["Configuration", "ConfigureArguments"]

CAPTURE_EVERY: Final = 1.0  # seconds


class SettingsPatch(msgspec.Struct, frozen=True, omit_defaults=True):
    log_level: Level | None = None
    ws_mode: WsMode | None = None
    network_bodies: bool | None = None
    actions: bool | None = None


class ConfigureArguments(msgspec.Struct, frozen=True):
    action: Literal["store", "load", "noise_rule", "dismiss", "clear", "capture"]
    store_action: Literal["save", "load", "list", "delete", "stats"] | None = None
    namespace: str | None = None
    key: str | None = None
    data: dict[str, Json] | None = None
    noise_action: Literal["add", "remove", "list", "reset", "auto_detect"] | None = None
    rules: list[Rule] | None = None
    rule_id: str | None = None
    pattern: str | None = None
    category: Category = "console"
    reason: str = ""
    buffer: BufferName = "all"
    settings: SettingsPatch | None = None
    page: str | None = None


class Configuration:
    """Of one tenant."""

    def __init__(self, watch: Watch, store: Store) -> None:
        self._watch = watch
        self._store = store
        self._disk = asyncio.Lock()
        self._captured = float("-inf")

    async def run(self, arguments: ConfigureArguments) -> dict[str, Json]:
        actions = {
            "store": self._use_store,
            "load": self._load,
            "noise_rule": self._change_noise,
            "dismiss": self._dismiss,
            "clear": self._clear,
            "capture": self._capture,
        }
        return {"action": arguments.action, **await actions[arguments.action](arguments)}

    async def _use_store(self, arguments: ConfigureArguments) -> dict[str, Json]:
        what = _required(arguments.store_action, "store_action", "store")
        namespace = arguments.namespace or "default"
        async with self._disk:
            if what == "list":
                return {"store_action": what, **await asyncio.to_thread(self._store.list_keys, arguments.namespace)}
            if what == "stats":
                return {"store_action": what, **await asyncio.to_thread(self._store.stats)}
            if what == "delete":
                done = await asyncio.to_thread(self._store.delete, namespace, arguments.key)
                return {"store_action": what, **done}
            key = _required(arguments.key, "key", f"store {what}")
            if what == "load":
                return {"store_action": what, **await asyncio.to_thread(self._store.load, namespace, key)}
            data = _required(arguments.data, "data", "store save")
            return {"store_action": what, **await asyncio.to_thread(self._store.save, namespace, key, data)}

    async def _load(self, arguments: ConfigureArguments) -> dict[str, Json]:
        watch = self._watch
        async with self._disk:
            namespaces = await asyncio.to_thread(self._store.namespaces)
        connected = watch.pages.connected()
        return {
            "counts": watch.buffers.counts(),
            "marks": {name: iso(at) for name, at in watch.marks.describe().items()},
            "noise_rules": msgspec.to_builtins(watch.noise.all()),
            "namespaces": namespaces,
            "pages": [
                {
                    "id": page.id,
                    "url": page.url,
                    "title": page.title,
                    "visible": page.visible,
                    "chosen": page.id == watch.pages.chosen,
                }
                for page in connected
            ],
            "settings": msgspec.to_builtins(watch.settings),
        }

    async def _change_noise(self, arguments: ConfigureArguments) -> dict[str, Json]:
        noise, buffers = self._watch.noise, self._watch.buffers
        what = _required(arguments.noise_action, "noise_action", "noise_rule")
        told: dict[str, Json] = {"noise_action": what}
        if what == "add":
            added = noise.add(_required(arguments.rules, "rules", "noise_rule add"))
            told["added"] = msgspec.to_builtins(added)
        elif what == "remove":
            told["removed"] = noise.remove(_required(arguments.rule_id, "rule_id", "noise_rule remove")).id
        elif what == "reset":
            noise.reset()
        elif what == "auto_detect":
            return told | {"proposals": noise.propose(buffers.logs, buffers.network)}
        return told | {"rules": msgspec.to_builtins(noise.all())}

    async def _dismiss(self, arguments: ConfigureArguments) -> dict[str, Json]:
        pattern = _required(arguments.pattern, "pattern", "dismiss")
        added = self._watch.noise.add([Rule(arguments.category, pattern, reason=arguments.reason)])
        return {"added": msgspec.to_builtins(added)}

    async def _clear(self, arguments: ConfigureArguments) -> dict[str, Json]:
        return {"buffer": arguments.buffer, "removed": self._watch.buffers.clear(arguments.buffer)}

    async def _capture(self, arguments: ConfigureArguments) -> dict[str, Json]:
        watch = self._watch
        if arguments.settings is None and arguments.page is None:
            words = "capture needs settings, or the page that is asked from now on."
            raise InvalidArguments(words, next="Call again with settings or page.")
        now = watch.now()
        if now - self._captured < CAPTURE_EVERY:
            words = "What is collected changes at most once a second; call again in a second."
            raise ToolError(words, code="too_soon", next="Call again in a second.")
        if arguments.page is not None:
            watch.pages.chosen = watch.pages.target(arguments.page).id if arguments.page else None
        if arguments.settings is not None:
            given = {
                name: value for name, value in msgspec.to_builtins(arguments.settings).items() if value is not None
            }
            watch.configure(msgspec.structs.replace(watch.settings, **given))
        self._captured = now
        return {
            "settings": msgspec.to_builtins(watch.settings),
            "page": watch.pages.chosen,
            "pages_told": len(watch.pages.connected()),
        }


def _required(value: Json, name: str, action: str) -> Json:
    if value is None:
        raise InvalidArguments(f"{name} is needed for {action}.", next=f"Call again with {name}.")
    return value
