"""Where an upstream may be, and the HTTP session that reaches it: checked addresses, no redirects, cookies or proxies.

Rule 1: a name is looked up by our resolver alone, every address that it has is judged, and the connection is made to
one of these addresses. There is no second lookup, so a name that changes its mind in between gains nothing.
Rule 2: one address that may not be reached refuses the name, because the mixture is how rebinding looks.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zorivest_rpc.gateway.errors import AddressRefused, AuthEnvEmpty, AuthEnvMissing
from zorivest_rpc.serving.backend.wire import connector_class

if TYPE_CHECKING:
    import aiohttp

__all__ = ["CONNECTIONS", "SPARE", "Lookup", "judge_address", "open_session", "read_credentials", "read_literal"]

CONNECTIONS: Final = 8  # for requests
SPARE: Final = 64  # for what is said beside them, and for calls that wait for a person
Address: TypeAlias = IPv4Address | IPv6Address
Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]  # a name and a port to addresses

_PRIVATE: Final = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10")
)
# Public, or in ranges that `allow_private_network` opens, and yet no server of anybody's: they hand out credentials.
_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("fd00:ec2::254", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
    )
)
# Forms of IPv6 that carry an IPv4 address, which is the one that is reached.
_NAT64: Final = tuple(IPv6Network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96"))
_COMPATIBLE: Final = IPv6Network("::/96")
_THIS_NETWORK: Final = ip_network("0.0.0.0/8")


def read_literal(host: str) -> Address | None:
    """The address that a host is written as, without brackets and zone; None for a name."""
    bare = host.removeprefix("[").removesuffix("]").partition("%")[0]
    try:
        return ip_address(bare)
    except ValueError:
        pass
    try:  # 2130706433, 0x7f.1 and 127.1 are addresses for the system, though not for everybody
        return ip_address(socket.inet_aton(bare)) if bare[:1].isdigit() else None
    except (OSError, ValueError):
        return None


def _reached(address: Address) -> Address:
    """The IPv4 address behind a mapped, compatible, translated or tunnelled form; else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in net for net in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def judge_address(address: Address, *, allow_private: bool = False, only_loopback: bool = False) -> str | None:
    """Why an address may not be reached, or None. What belongs to no list is judged as private: nothing is forgotten
    into being allowed. `only_loopback`: a token goes there in clear."""
    found = _reached(address)
    if found.is_unspecified or found in _THIS_NETWORK:
        return "unspecified"
    if found.is_multicast:
        return "multicast"
    if found in _METADATA:
        return "metadata service"
    if found.is_link_local:
        return "link-local"
    if found.is_loopback:
        return None
    if only_loopback:
        return "a token goes over plain http to this machine alone"
    if found.is_reserved and not isinstance(found, IPv6Address):
        return "reserved"
    if allow_private:
        return None
    if any(found in net for net in _PRIVATE if net.version == found.version):
        return "private network; allow_private_network permits it"
    return None if found.is_global else "not a public address; allow_private_network permits it"


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a name, as the system knows them."""
    import asyncio

    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@cache
def _resolver_class() -> Any:
    """On demand, because aiohttp is not imported before it is needed."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class CheckedResolver(AbstractResolver):
        def __init__(self, check: Callable[[Address], None], lookup: Lookup) -> None:
            self._check = check
            self._lookup = lookup

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            # Of `fe80::1%eth0` the zone is dropped: what has one is link-local, which is never reached.
            addresses = [ip_address(text.partition("%")[0]) for text in await self._lookup(host, port)]
            for address in addresses:
                self._check(address)
            if not addresses:
                raise OSError("the host name has no address")
            return [
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                    proto=0,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            return None

    return CheckedResolver


def open_session(
    server: str,
    host: str,
    *,
    allow_private: bool,
    only_loopback: bool = False,
    user_agent: str,
    lookup: Lookup = look_up,
) -> aiohttp.ClientSession:
    """A session for one upstream. AddressRefused where its host is written as an address that may not be reached:
    such a host never comes to a resolver."""
    import aiohttp

    def check(address: Address) -> None:
        why = judge_address(address, allow_private=allow_private, only_loopback=only_loopback)
        if why is not None:
            raise AddressRefused(server, str(address), why)

    literal = read_literal(host)
    if literal is not None:
        check(literal)
        if literal.version == 4 and str(literal) != host:  # 127.1 and the like, which libraries read in different ways
            raise AddressRefused(server, str(literal), "the endpoint writes it in another form")
    connector = connector_class()(
        limit=CONNECTIONS + SPARE,
        resolver=_resolver_class()(check, lookup),
        use_dns_cache=False,  # each connection goes to an address that was judged for it
        keepalive_timeout=30,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),  # deadlines are the caller's
        requote_redirect_url=False,
    )


def read_credentials(
    server: str, environ: Mapping[str, str], bearer: str | None, headers: Mapping[str, str]
) -> dict[str, str]:
    """The secret headers of a server, read anew at each connect; a variable that is missing or empty is an error."""
    found = {}
    wanted = {**({"Authorization": bearer} if bearer else {}), **headers}
    for header, variable in wanted.items():
        value = environ.get(variable)
        if value is None:
            raise AuthEnvMissing(server, variable)
        value = value.strip()
        if not value:
            raise AuthEnvEmpty(server, variable)
        found[header] = f"Bearer {value}" if header == "Authorization" else value
    return found
