"""From a profile to a gateway: its pins, its telemetry and its transports. Imported once the first answer is out."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import Callable, Mapping

from zorivest_rpc.config import Settings
from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.loops import Passage
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.router import Gateway
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.tools.prompts import ARGUMENTS

__all__ = ["open_gateway", "open_telemetry"]


def open_telemetry(settings: Settings, profile: Profile | None, environ: Mapping[str, str]) -> Telemetry:
    secrets = () if profile is None else secret_values(profile, environ)
    return Telemetry(settings.telemetry, Redactor(secrets), capture_content=settings.telemetry_content)


def open_gateway(
    settings: Settings,
    profile: Profile,
    base: Definitions,
    environ: Mapping[str, str],
    adopt: Callable[[Definitions], None],
    tell: Callable[[str, str | None], None],
    passage: Passage,
    telemetry: Telemetry,
    *,
    whole: Profile | None = None,
    gate: Semaphore | None = None,
) -> Gateway:
    """Nothing is contacted before `start`. `whole` is the profile that this one is a part of, and `gate`
    bounds how many servers of all the parts are discovered at once."""
    return Gateway(
        base,
        profile,
        pins=Pins(settings.data_dir),
        telemetry=telemetry,
        make=lambda server, note: make_upstream(server, environ, meta=passage.opening, on_happening=note),
        adopt=adopt,
        passage=passage,
        eras=Eras(settings.data_dir),
        redactor=lambda profile: Redactor(secret_values(whole or profile, environ)),
        warns=whole is None,
        gate=gate,
        input_seconds=settings.input_seconds,
        our_prompts=frozenset(ARGUMENTS),
        tell=tell,
    )
