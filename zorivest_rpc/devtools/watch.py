"""All that one tenant observes: its key, its pages, their buffers, and what was configured of it."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable, Collection
from typing import Final

from zorivest_rpc.devtools.buffers import Buffers, Counting
from zorivest_rpc.devtools.frames import Item, Limits, Settings, SettingsFrame
from zorivest_rpc.devtools.intake import Intake
from zorivest_rpc.devtools.limiter import Limiter
from zorivest_rpc.devtools.live import Live
from zorivest_rpc.devtools.marks import Marks
from zorivest_rpc.devtools.noise import Noise
from zorivest_rpc.devtools.pages import Page, Pages

__all__ = ["Watch", "Watches", "new_key"]

_KEY_BYTES: Final = 24


class Watch:
    def __init__(self, tenant: str, key: str, state: Counting, now: Callable[[], float]) -> None:
        self.tenant = tenant
        self.key = key
        self.now = now
        self.limits = Limits()
        self.buffers = Buffers(state, now)
        self.intake = Intake(self.buffers, self.limits, now)
        self.limiter = Limiter(now)
        self.live = Live()
        self.pages = Pages(self.live.leave)
        self.noise = Noise()
        self.marks = Marks()
        self.navigated: Callable[[Page], None] = lambda page: None
        """Called when a page shows another address: what was found out about the old one is stale."""
        self.over = False  # the tenant is gone, and nothing more is taken

    @property
    def settings(self) -> Settings:
        return self.intake.settings

    def configure(self, settings: Settings) -> None:
        """From now on, and at once on the pages that are connected."""
        self.intake.settings = settings
        frame = SettingsFrame(settings.log_level, settings.ws_mode, settings.network_bodies, settings.actions)
        for page in self.pages.connected():
            if page.link is not None:
                page.link.send(frame)

    def end(self) -> None:
        """Forget everything, and let no page that is connected say more."""
        self.over = True
        self.buffers.clear()
        for page in self.pages.all():
            self.buffers.sockets.leave(page.id, self.now())
            if page.link is not None:
                page.link.close()
        self.buffers.clear("websocket")

    def take(self, page: Page, seq: int, items: list[Item], lost: int) -> bool:
        """Store a batch that is not stored yet; False if pages are to slow down, and then nothing of it is."""
        if not self.limiter.take(max(1, len(items))):
            return False
        if page.is_new(seq):
            self.buffers.dropped += lost
            self.intake.add(items, page.id, page.tab)
        return True


class Watches:
    """By tenant, made with the first use. A key opens one of them, and nothing else does.

    A key is there before the watch is: a page has to carry it before the page can send anything."""

    def __init__(
        self,
        state_of: Callable[[str], Counting],
        now: Callable[[], float],
        *,
        first: str | None,
        key: str | None = None,
        made: Callable[[], None] = lambda: None,
    ) -> None:
        """`key`, where the operator chose one, is that of the tenant `first`, and those of all others are made of it;
        `made` is told of each new key."""
        self._state_of = state_of
        self._now = now
        self._first = first
        self._key = key
        self._tell = made
        self._made: dict[str, Watch] = {}
        self._keys: dict[str, str] = {}

    def serve(self, tenants: Collection[str]) -> None:
        """These have keys from now on, and no others: what was of another one is over."""
        for tenant in [each for each in self._keys if each not in tenants]:
            del self._keys[tenant]
            if (watch := self._made.pop(tenant, None)) is not None:
                watch.end()
        for tenant in tenants:
            if tenant not in self._keys:
                self._keys[tenant] = self._new_key(tenant)
        self._tell()

    def _new_key(self, tenant: str) -> str:
        if not self._key:
            return new_key()
        return self._key if tenant == self._first else _derive(self._key, tenant)

    def serves(self, tenant: str) -> bool:
        return tenant in self._keys

    def keys(self) -> dict[str, str]:
        return dict(self._keys)

    def of(self, tenant: str) -> Watch:
        watch = self._made.get(tenant)
        if watch is None:
            if is_new := tenant not in self._keys:
                self._keys[tenant] = self._new_key(tenant)
            watch = self._made[tenant] = Watch(tenant, self._keys[tenant], self._state_of(tenant), self._now)
            if is_new:
                self._tell()
        return watch

    def by_key(self, key: str) -> Watch | None:
        """Every key is compared, in constant time, so that timing tells nothing."""
        found = None
        given = key.encode("utf-8", "replace")
        for tenant, own in self._keys.items():
            if hmac.compare_digest(own.encode(), given):
                found = tenant
        return None if found is None else self.of(found)


def new_key() -> str:
    return "zdk_" + secrets.token_urlsafe(_KEY_BYTES)


def _derive(key: str, tenant: str) -> str:
    """Of one key the key of each tenant, the same after each start; none of them leads to another one."""
    digest = hmac.digest(key.encode(), tenant.encode(), "sha256")
    return "zdk_" + base64.urlsafe_b64encode(digest[:_KEY_BYTES]).decode()
