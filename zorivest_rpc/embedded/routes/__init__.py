"""The REST areas, one module each; a new area is a module with a table `ROUTES` and a line here.

Within a module, and between modules, a fixed path stands before a placeholder that would match it."""

from __future__ import annotations

from . import (
    accounts,
    analytics,
    auth,
    backups,
    banking,
    bars,
    brokers,
    confirmation,
    connections,
    corporate_actions,
    costs,
    demo,
    guard,
    identifiers,
    images,
    imports,
    journal,
    market_data,
    mistakes,
    plans,
    round_trips,
    scheduling,
    service,
    settings,
    system,
    tax,
    tax_profiles,
    trades,
)

__all__ = ["AREAS"]

AREAS = (
    auth.ROUTES,
    backups.ROUTES,
    confirmation.ROUTES,
    guard.ROUTES,
    scheduling.ROUTES,
    service.ROUTES,
    settings.ROUTES,
    system.ROUTES,
    trades.ROUTES,
    images.ROUTES,
    journal.ROUTES,
    plans.ROUTES,
    accounts.ROUTES,
    round_trips.ROUTES,
    corporate_actions.ROUTES,
    analytics.ROUTES,
    costs.ROUTES,
    mistakes.ROUTES,
    bars.ROUTES,
    imports.ROUTES,
    banking.ROUTES,
    tax.ROUTES,
    tax_profiles.ROUTES,
    demo.ROUTES,
    market_data.ROUTES,
    identifiers.ROUTES,
    brokers.ROUTES,
    connections.ROUTES,
)
