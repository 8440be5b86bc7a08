"""Which server is for which client, where one server of ours acts for several.

Nothing is shared by surprise: a server that says neither `shared` nor `tenants` is for none of them. Where each client
has a token of its own, each has a connection of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, Server

__all__ = ["UNASSIGNED", "Assigned", "assign", "is_assigned", "seen_by"]

UNASSIGNED: Final = "disabled: not assigned to any client"


class Assigned(NamedTuple):
    """A profile taken apart by who may use its servers."""

    whole: Profile
    common: Profile
    """The servers with one connection for all that may use them."""
    own: Mapping[str, Profile]
    """By client, those with a connection for each."""
    clients: Mapping[str, frozenset[str] | None]
    """Who may use each enabled server; None: all, and the empty set: none."""

    @property
    def named(self) -> frozenset[str]:
        """The clients that some server is assigned to by name."""
        return frozenset().union(*(each for each in self.clients.values() if each))

    def look(self, server: Server) -> tuple[int | None, str, str | None]:
        """The state of a server that was not contacted yet."""
        clients = self.clients[server.name]
        return (None, "connecting", None) if clients is None or clients else (0, UNASSIGNED, None)

    def hidden_from(self, client: str) -> frozenset[str]:
        """The toolsets of servers that are for others. A server for none is shown to all, with its state."""
        servers = {server.name: server.toolset for server in self.whole.enabled}
        return frozenset(servers[name] for name, own in self.clients.items() if own and client not in own)


def is_assigned(server: Server) -> bool:
    return server.shared or bool(server.tenants)


def assign(profile: Profile, ids: Collection[str], *, strict: bool = True) -> Assigned:
    """ConfigError tells every assignment that cannot be meant. `ids` are the clients that are configured; `strict`
    refuses any other, else it is passed over: a client may leave while the server runs."""
    problems: list[str] = []
    common: list[Server] = []
    own: dict[str, list[Server]] = {}
    clients: dict[str, frozenset[str] | None] = {}
    for server in profile.enabled:
        named = {each.strip().lower() for each in server.tenants}
        tokens = {id.strip().lower(): name for id, name in server.auth_bearer_env_by_tenant.items()}
        problems += _problems(server, named, tokens, ids if strict else named | tokens.keys())
        named &= set(ids)
        clients[server.name] = None if server.shared else frozenset(named)
        if server.shared or (named and not tokens):
            common.append(server)
        for id in sorted(named & tokens.keys()):
            others = tuple(sorted(set(tokens.values()) - {tokens[id]}))
            mine = replace(
                server,
                auth_bearer_env=tokens[id],
                auth_bearer_env_by_tenant={},
                tenants=(id,),
                tenant=id,
                tokens_of_others=others,
            )
            own.setdefault(id, []).append(mine)
    if problems:
        raise ConfigError("mcp_servers", "\n".join(problems))
    parts = {id: replace(profile, mcp_servers=tuple(servers)) for id, servers in own.items()}
    return Assigned(profile, replace(profile, mcp_servers=tuple(common)), parts, clients)


def seen_by(profile: Profile, id: str) -> Profile:
    """The profile with the servers that one client has, each with that client's own token where it has one."""
    client = id.strip().lower()
    named = {client, *(each.strip().lower() for server in profile.enabled for each in server.tenants)}
    assigned = assign(profile, named)
    own = assigned.own.get(client)
    servers = {server.name: server for server in (*assigned.common.mcp_servers, *(own.mcp_servers if own else ()))}
    hidden = {name for name, clients in assigned.clients.items() if clients is not None and client not in clients}
    return replace(profile, mcp_servers=tuple(each for name, each in servers.items() if name not in hidden))


def _problems(server: Server, named: Collection[str], tokens: Mapping[str, str], ids: Collection[str]) -> list[str]:
    found = [f'{server.name}: unknown client "{id}"' for id in sorted({*named, *tokens} - set(ids))]
    if tokens and server.shared:
        found.append(f"{server.name}: shared is one credential for all; auth_bearer_env_by_tenant excludes it")
    elif tokens:
        without = sorted(set(named) - tokens.keys())
        found += [f'{server.name}: auth_bearer_env_by_tenant names no variable for client "{id}"' for id in without]
        beside = sorted(tokens.keys() - set(named))
        found += [f'{server.name}: client "{id}" has a token and is not in tenants' for id in beside]
    return found
