"""`/connections`: what a person can connect, what each takes, and what is connected; never a value that was entered."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from sqlalchemy import Connection

from ...brokers import configs
from ...brokers.registry import Broker
from ...market import connections
from ...market.providers import PROVIDERS
from ...scheduling import mail
from ..routing import READ, RestCall, Route, reply

__all__ = ["ROUTES"]


async def list_all(ask: RestCall) -> web.StreamResponse:
    def job(conn: Connection) -> dict[str, Any]:
        return {
            "providers": [_provider(setup) for setup in connections.read_all(conn, PROVIDERS)],
            "brokers": [_broker(broker, config) for broker, config in configs.read_all(conn)],
            "mail": _mail(mail.load(conn)),
        }

    return reply(await ask.db.read(job))


def _provider(setup: connections.Setup) -> dict[str, Any]:
    provider, missing = setup.provider, setup.missing
    return {
        "name": provider.slug,
        "display_name": provider.name,
        "aliases": [provider.name, *provider.aliases],
        "connected": setup.is_enabled and not missing,
        "is_enabled": setup.is_enabled,
        "missing": missing,
        "credentials": [credential.describe() for credential in provider.credentials],
        "last_test_status": setup.last_test_status,
        "signup_url": provider.signup_url,
    }


def _broker(broker: Broker, config: configs.Config) -> dict[str, Any]:
    return {
        "name": broker.broker_id,
        "display_name": broker.name,
        "aliases": [],  # a name may have a live and a paper side; only an id says which
        "files_only": broker.adapter is None,
        "connected": config.usable(broker),
        "is_enabled": config.is_enabled,
        "missing": config.missing(broker),
        "credentials": [credential.describe() for credential in broker.credentials],
        "supports": list(broker.supports),
        "last_status": config.last_status,
    }


def _mail(server: mail.MailServer | None) -> dict[str, Any]:
    return {
        "connected": server is not None,
        "server": server.view() if server is not None else None,
        "presets": {name: {"host": host, "security": kind} for name, (host, kind) in mail.PRESETS.items()},
        "security": [{"name": name, "port": mail.PORTS[name]} for name in mail.SECURITY],
        "credentials": [credential.describe() for credential in mail.CREDENTIALS],
    }


ROUTES = (Route("GET", "/connections", READ, list_all),)
