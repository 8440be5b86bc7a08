"""All that one tenant observes: its key, its pages, their buffers, and what was configured of it."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
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

    def take(self, page: Page, seq: int, items: list[Item], lost: int) -> bool:
        """Store a batch that is not stored yet; False if pages are to slow down, and then nothing of it is."""
        if not self.limiter.take(max(1, len(items))):
            return False
        if page.is_new(seq):
            self.buffers.dropped += lost
            self.intake.add(items, page.id, page.tab)
        return True


class Watches:
    """By tenant, made with the first use. A key opens one of them, and nothing else does."""

    def __init__(
        self,
        state_of: Callable[[str], Counting],
        now: Callable[[], float],
        *,
        first: str,
        key: str | None = None,
        made: Callable[[], None] = lambda: None,
    ) -> None:
        """`key` is that of the tenant `first`, where the operator chose one; `made` is told of each new tenant."""
        self._state_of = state_of
        self._now = now
        self._first = first
        self._key = key
        self._tell = made
        self._made: dict[str, Watch] = {}

    def of(self, tenant: str) -> Watch:
        watch = self._made.get(tenant)
        if watch is None:
            key = self._key if self._key and tenant == self._first else new_key()
            watch = self._made[tenant] = Watch(tenant, key, self._state_of(tenant), self._now)
            self._tell()
        return watch

    def all(self) -> list[Watch]:
        return list(self._made.values())

    def by_key(self, key: str) -> Watch | None:
        """Every key is compared, in constant time, so that timing tells nothing."""
        found = None
        for watch in self._made.values():
            if hmac.compare_digest(watch.key.encode(), key.encode("utf-8", "replace")):
                found = watch
        return found


def new_key() -> str:
    return "zdk_" + secrets.token_urlsafe(_KEY_BYTES)
