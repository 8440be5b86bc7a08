"""How far the exposure of tools shapes a client's list: the operator's choice, the client's traits and the era."""

from __future__ import annotations

from collections.abc import Collection

from zorivest_rpc.exposure.view import Manner
from zorivest_rpc.serving.catalog.spec import Mode
from zorivest_rpc.serving.modes.detect import Profile, normalise
from zorivest_rpc.serving.modes.present import REVISION_FIELDS

__all__ = ["choose", "manner"]


def choose(setting: str, profile: Profile, *, modern: bool) -> str:
    """What `auto` means for this client: nothing is hidden from one that would never hear of what appears later.

    In the modern era a list says for how long it is good, so that data may change it for every client. An anthropic
    client builds its search index once, and would never find a tool that was hidden then."""
    if setting != "auto":
        return setting
    if modern:
        return "filter"
    refreshes = profile.traits.list_changed in ("yes", "next-turn")
    return "filter" if refreshes and profile.mode is Mode.DYNAMIC else "advisory"


def manner(setting: str, profile: Profile, revision: str, *, modern: bool, meta_skip: Collection[str]) -> Manner:
    """A modern list may not change as a side effect of a call, so that a gate, which a call opens, is none there."""
    way = choose(setting, profile, modern=modern)
    skipped = normalise(profile.name) in {normalise(name) for name in meta_skip}
    told = way != "off" and REVISION_FIELDS[revision].meta and profile.traits.tool_meta and not skipped
    return Manner(
        filters=way == "filter",
        gates=way == "filter" and not modern,
        meta=told,
        hints=told and way == "advisory",
    )
