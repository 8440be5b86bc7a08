"""Where upstreams may be: every family of addresses, and that the address which was judged is the one connected to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest

from tests.gateway.fake import IDENTITY, Fake, calling, serving
from tests.places import ROOT
from zorivest_rpc.gateway.errors import AddressRefused, AuthEnvEmpty, AuthEnvMissing, ConnectFailed
from zorivest_rpc.gateway.http_client import HttpUpstream
from zorivest_rpc.gateway.net import judge_address, read_credentials, read_literal

NEVER = {
    "unspecified": ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "64:ff9b::", "2002::1"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff05::2", "::ffff:224.0.0.1"],
    "link-local": ["169.254.0.1", "169.254.255.254", "fe80::1", "febf::1", "::ffff:169.254.1.1", "64:ff9b::a9fe:101"],
    "metadata service": [
        *("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "::ffff:169.254.169.254"),
        *("168.63.129.16", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "::ffff:0:a9fe:a9fe"),
        *("::ffff:a9fe:a9fe", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
    ],
    "reserved": ["240.0.0.1", "255.255.255.255", "::ffff:255.255.255.255"],
}
PRIVATE = [
    *("10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255"),
    *("100.64.0.1", "100.127.255.255", "fc00::1", "fdff::1", "fec0::1", "::ffff:10.0.0.1", "::ffff:192.168.1.1"),
    *("::ffff:0:10.0.0.1", "64:ff9b::a00:1", "2002:c0a8:101::1", "192.0.2.1", "198.18.0.1", "2001:db8::1"),
]
PUBLIC = [
    *("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255"),
    *("100.63.255.255", "100.128.0.0", "192.169.0.0", "2606:4700::1111", "::ffff:8.8.8.8", "223.255.255.255"),
]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in NEVER.items() for text in texts])
@pytest.mark.parametrize("allow_private", [False, True])
def test_some_addresses_are_never_reached(why: str, text: str, allow_private: bool) -> None:
    assert judge_address(ip_address(text), allow_private=allow_private) == why


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_need_permission(text: str) -> None:
    assert "allow_private_network" in (judge_address(ip_address(text)) or "")
    assert judge_address(ip_address(text), allow_private=True) is None


@pytest.mark.parametrize("text", [*PUBLIC, *LOOPBACK])
@pytest.mark.parametrize("allow_private", [False, True])
def test_public_addresses_and_loopback_are_reached(text: str, allow_private: bool) -> None:
    assert judge_address(ip_address(text), allow_private=allow_private) is None


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("[fe80::1%eth0]", "fe80::1"),
        ("example.com", None),
        ("127.1", "127.0.0.1"),
        ("2852039166", "169.254.169.254"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("4294967296", None),
        ("3com.example", None),
        ("cafe.example", None),
        ("", None),
    ],
)
def test_brackets_and_zones_are_taken_off_a_literal(host: str, address: str | None) -> None:
    assert read_literal(host) == (None if address is None else ip_address(address))


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "0.0.0.0", "10.1.2.3", "[::ffff:169.254.169.254]", "[fe80::1]", "[fe80::1%25eth0]"),
        *("[fc00::1]", "[::ffff:10.0.0.1]", "[ff02::1]", "[::]", "0", "127.1", "2852039166", "0xa9fea9fe", "0177.1"),
    ],
)
async def test_an_endpoint_that_is_such_an_address_is_refused_before_anything_is_sent(host: str) -> None:
    client = HttpUpstream("ops", f"http://{host}:9/mcp", IDENTITY)
    with pytest.raises(AddressRefused) as refused:
        await client.connect()
    await client.close()
    assert (refused.value.code, refused.value.retryable) == ("address_refused", False)
    assert "ops" in refused.value.problem


def resolver(*answers: list[str]) -> tuple[Callable[[str, int], Any], list[str]]:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return lookup, asked


@pytest.mark.parametrize(
    "addresses",
    [["169.254.169.254"], ["127.0.0.1", "169.254.169.254"], ["fe80::1%lo"], ["10.0.0.7"], ["::ffff:a9fe:1"]],
)
async def test_a_name_with_one_such_address_is_refused(addresses: list[str]) -> None:
    fake = Fake()
    async with serving(fake.handle) as url:
        lookup, _ = resolver(addresses)
        client = HttpUpstream("ops", url.replace("127.0.0.1", "evil.example"), IDENTITY, lookup=lookup)
        with pytest.raises(AddressRefused) as refused:
            await client.connect()
        await client.close()
    assert ip_address(refused.value.address) == ip_address(addresses[-1].partition("%")[0])
    assert fake.seen == []


async def test_a_private_address_is_reached_with_permission() -> None:
    lookup, _ = resolver(["10.255.255.1"])
    client = HttpUpstream("ops", "http://lan.example:1/mcp", IDENTITY, lookup=lookup, seconds=0.2, allow_private=True)
    with pytest.raises(Exception) as failed:
        await client.connect()
    await client.close()
    assert not isinstance(failed.value, AddressRefused)


async def test_a_name_that_changes_its_mind_is_looked_up_once_per_connection_and_judged_each_time() -> None:
    fake = Fake()
    async with serving(fake.handle) as url:
        lookup, asked = resolver(["127.0.0.1"], ["169.254.169.254"])
        client = HttpUpstream("ops", url.replace("127.0.0.1", "rebind.example"), IDENTITY, lookup=lookup)
        await client.connect()
        await client.call(calling())  # on the connection that is there
        assert asked == ["rebind.example"]
        await client.close()
        with pytest.raises(AddressRefused):
            await client.connect()
        await client.close()
        assert asked == ["rebind.example"] * 2
    assert {seen.headers["Host"].partition(":")[0] for seen in fake.seen} == {"rebind.example"}


@pytest.mark.parametrize(("address", "is_reached"), [("127.0.0.1", True), ("8.8.8.8", False), ("192.168.0.7", False)])
async def test_a_token_in_clear_goes_to_this_machine_whatever_a_name_of_it_leads_to(
    address: str, is_reached: bool
) -> None:
    """A name may be taken for this machine (`x.localhost`) and lead elsewhere: what counts is where."""
    fake = Fake()
    async with serving(fake.handle) as url:
        client = HttpUpstream(
            "ops",
            url.replace("127.0.0.1", "x.localhost"),
            IDENTITY,
            credentials=lambda: {"Authorization": "Bearer t0ken"},
            allow_private=True,
            lookup=resolver([address])[0],
        )
        if is_reached:
            await client.connect()
        else:
            with pytest.raises(AddressRefused, match="over plain http to this machine alone"):
                await client.connect()
        await client.close()
    assert bool(fake.seen) is is_reached


async def test_a_name_without_an_address_cannot_be_reached() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise OSError("no such host")

    for found in (lookup, resolver([])[0]):
        client = HttpUpstream("ops", "http://nowhere.example/mcp", IDENTITY, lookup=found)
        with pytest.raises(ConnectFailed) as failed:
            await client.connect()
        await client.close()
        assert (failed.value.code, failed.value.sent) == ("connect_failed", False)


# --- credentials


def test_credentials_come_from_the_environment_at_each_asking() -> None:
    environ = {"TOKEN": " t0ken\n", "KEY": "k"}
    assert read_credentials("ops", environ, "TOKEN", {"X-Key": "KEY"}) == {
        "Authorization": "Bearer t0ken",
        "X-Key": "k",
    }
    assert read_credentials("ops", environ, None, {}) == {}
    del environ["TOKEN"]
    with pytest.raises(AuthEnvMissing) as missing:
        read_credentials("ops", environ, "TOKEN", {})
    assert missing.value.variable == "TOKEN"
    with pytest.raises(AuthEnvEmpty):
        read_credentials("ops", {"TOKEN": "  "}, "TOKEN", {})
    with pytest.raises(AuthEnvMissing) as other:
        read_credentials("ops", {}, None, {"X-Key": "KEY"})
    assert other.value.variable == "KEY"


def test_nothing_heavy_is_imported_before_a_server_is_reached() -> None:
    modules = "net, upstream, following, http_client, child, stdio_client"
    probe = f"import sys; from zorivest_rpc.gateway import {modules}; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
