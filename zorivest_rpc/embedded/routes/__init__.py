"""The REST areas, one module each; a new area is a module with a table `ROUTES` and a line here.

Within a module, and between modules, a fixed path stands before a placeholder that would match it."""

from __future__ import annotations

from . import (
    accounts,
    analytics,
    auth,
    banking,
    bars,
    confirmation,
    costs,
    demo,
    guard,
    images,
    imports,
    journal,
    mistakes,
    plans,
    round_trips,
    service,
    settings,
    system,
    tax,
    trades,
)

__all__ = ["AREAS"]

AREAS = (
    auth.ROUTES,
    confirmation.ROUTES,
    guard.ROUTES,
    service.ROUTES,
    settings.ROUTES,
    system.ROUTES,
    trades.ROUTES,
    images.ROUTES,
    journal.ROUTES,
    plans.ROUTES,
    accounts.ROUTES,
    round_trips.ROUTES,
    analytics.ROUTES,
    costs.ROUTES,
    mistakes.ROUTES,
    bars.ROUTES,
    imports.ROUTES,
    banking.ROUTES,
    tax.ROUTES,
    demo.ROUTES,
)
