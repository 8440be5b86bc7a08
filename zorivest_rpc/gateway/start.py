"""From a profile to a gateway: its pins, its telemetry and its transports. Imported once the first answer is out."""

from __future__ import annotations

from asyncio import Semaphore
from collections.abc import Callable, Mapping

from zorivest_rpc.config import Settings
from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.libraries import RESERVED
from zorivest_rpc.gateway.library import Address, Library, Pass
from zorivest_rpc.gateway.loops import Passage
from zorivest_rpc.gateway.member import Member
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.questions import Questions
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.router import Gateway, Shelves
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.tools.prompts import ARGUMENTS

__all__ = ["open_gateway", "open_library", "open_telemetry"]


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
    shelves: Shelves | None = None,
) -> Gateway:
    """Nothing is contacted before `start`. `whole` is the profile that this one is a part of, `gate` bounds how many
    servers of all the parts are discovered at once, and `shelves` has the prompts and resources of all the parts."""
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
        shelves=shelves,
        input_seconds=settings.input_seconds,
        our_prompts=frozenset(ARGUMENTS),
        tell=tell,
    )


def open_library(
    profile: Profile,
    members: Mapping[str, Member],
    passage: Passage,
    questions: Questions,
    telemetry: Telemetry,
    *,
    address: Address,
    behind: Pass,
) -> Library:
    """What one of several clients has of these servers, empty so far: its prompts take the client as an argument."""
    ours = frozenset(ARGUMENTS)
    return Library(
        profile, members, passage, questions, telemetry, ours, address=address, reserved=RESERVED, behind=behind
    )
