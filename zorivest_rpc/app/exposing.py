"""Lists that follow the state: which rules are in play, and how a change of them is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zorivest_rpc.config import Settings
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.modes.present import OBSERVERS

if TYPE_CHECKING:
    from zorivest_rpc.exposure.engine import Engine
    from zorivest_rpc.exposure.notify import ChangeWatch

__all__ = ["open_engine", "watch_tools"]


def open_engine(settings: Settings, definitions: Definitions) -> Engine | None:
    """The rules of the tools that observe, and with `--exposure-trading on` those of the trading tools; None where none
    is in play. Then nothing of the room is imported, and lists are the pages that they always were."""
    trading = settings.exposure_trading == "on"
    rules = {
        spec.name: spec.exposure
        for spec in definitions.tools
        if spec.exposure is not None and (trading or spec.toolset == OBSERVERS)
    }
    if not rules:
        return None
    from zorivest_rpc.exposure.engine import Engine

    return Engine(definitions.state_names, rules, strict=settings.exposure_strict)


def watch_tools(audience: Audience, *, has_servers: bool) -> ChangeWatch | None:
    """Where lists change by themselves, with data or other servers, changes are gathered before they are told."""
    engine = audience.exposure
    if engine is None and not has_servers:
        return None
    from zorivest_rpc.exposure.notify import ChangeWatch

    watch = ChangeWatch(lambda session: audience.view(session).digest(session.revision.shape))
    if engine is not None:
        engine.on_change = watch.changed
        engine.after_step = watch.flush
    return watch
