"""Whether there are several tenants, and what is made of them; nothing of them is imported where there are none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zorivest_rpc.config import Settings
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.catalog.toolsets import toolset_names

if TYPE_CHECKING:
    from zorivest_rpc.app.federation import Federation
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.tenants.config import Tenants

__all__ = ["leave_out_address", "read_tenants", "serve_tenants"]


def leave_out_address(settings: Settings) -> Settings:
    """The address of a server of one journal means none of several clients, and says nothing about their backends."""
    if not settings.api_url:
        return settings
    import logging

    words = "--api-url (ZORIVEST_API_URL) is not used: each client has an address of its own"
    logging.getLogger("zorivest_rpc.tenants").warning(words)
    return settings._replace(api_url=None)


def read_tenants(settings: Settings, definitions: Definitions) -> Tenants | None:
    """The tenants of the one source that is set."""
    if not settings.tenant_sources:
        return None
    from zorivest_rpc.tenants.config import load_tenants

    return load_tenants(settings, os.environ, toolset_names(definitions))


def serve_tenants(settings: Settings, tenants: Tenants, audience: Audience, others: Federation) -> ServedTenants:
    from zorivest_rpc.app.tenancy import ServedTenants

    return ServedTenants(
        settings,
        tenants,
        os.environ,
        audience,
        others=others,
        header=settings.tenancy_header,  # type: ignore[arg-type]
        in_header=settings.tenancy_mcp_param_header,
    )
