"""The REST areas, one module each; a new area is a module with a table `ROUTES` and a line here.

Within a module, and between modules, a fixed path stands before a placeholder that would match it."""

from __future__ import annotations

from . import auth, confirmation, guard, scheduling, service, settings, system

__all__ = ["AREAS"]

AREAS = (
    auth.ROUTES,
    confirmation.ROUTES,
    guard.ROUTES,
    scheduling.ROUTES,
    service.ROUTES,
    settings.ROUTES,
    system.ROUTES,
)
