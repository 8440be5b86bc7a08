"""Which entries of clients can be taken over, and that no secret of theirs ever is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zorivest_rpc.clients.adopt import adopt_entry, adoptable_name
from zorivest_rpc.gateway.config import check_profiles

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("name", "plain"),
    [("My Server", "my-server"), ("a__b", "a_b"), ("-x-", "x"), ("@scope/pkg", "scope-pkg"), ("x" * 30, "x" * 24)],
)
def test_a_name_in_our_characters(name: str, plain: str) -> None:
    assert adoptable_name(name) == plain
    assert check_profiles({"p": {"mcp_servers": [{"name": plain, "command": "x"}]}}) == []


@pytest.mark.parametrize(
    ("raw", "entry"),
    [
        ({"command": "x"}, {"command": "x"}),
        ({"command": "x", "args": ["a"], "cwd": "/srv"}, {"command": "x", "args": ["a"], "cwd": "/srv"}),
        (
            {"type": "local", "command": ["x", "a"], "environment": {"A": "1"}},
            {"command": "x", "args": ["a"], "env_pass": ["A"]},
        ),
        ({"command": "x", "env_vars": ["A", "B"]}, {"command": "x", "env_pass": ["A", "B"]}),
        ({"command": "x", "disabled": True}, {"command": "x", "enabled": False}),
        ({"command": "x", "args": [5, True, "a"]}, {"command": "x", "args": ["5", "true", "a"]}),
        ({"command": "x", "includeTools": ["a", "b"]}, {"command": "x", "tool_allowlist": ["a", "b"]}),
        (
            {"command": "x", "enabled_tools": ["a", "b"], "disabled_tools": ["b"]},
            {"command": "x", "tool_allowlist": ["a"]},
        ),
        (
            {"command": "x", "includeTools": ["a(x)", "b"], "excludeTools": ["b"]},
            {"command": "x", "tool_allowlist": ["a"]},
        ),
        ({"command": "x", "includeTools": 5, "excludeTools": 5, "env_vars": 5}, {"command": "x"}),
        (
            {"command": "x", "startup_timeout_sec": 20.5, "tool_timeout_sec": 9000},
            {"command": "x", "timeout_secs": 21, "call_timeout_secs": 3600},
        ),
        ({"command": "x", "startup_timeout_sec": 0, "tool_timeout_sec": "9"}, {"command": "x"}),
        (
            {"command": "x", "env_vars": ["A", {"name": "B"}, {"name": "C", "source": "remote"}]},
            {"command": "x", "env_pass": ["A", "B"]},
        ),
        ({"command": "x", "enabled_tools": []}, {"command": "x", "tool_allowlist": []}),
        ({"command": "x", "enabled": False}, {"command": "x", "enabled": False}),
        ({"httpUrl": "https://a.example/m"}, {"endpoint": "https://a.example/m"}),
        ({"serverUrl": "https://a.example/m"}, {"endpoint": "https://a.example/m"}),
        ({"url": "https://a.example/?tools=a,b"}, {"endpoint": "https://a.example/?tools=a,b"}),
        (
            {"url": "https://a.example", "bearer_token_env_var": "T"},
            {"endpoint": "https://a.example", "auth_bearer_env": "T"},
        ),
        (
            {"url": "https://a.example", "env_http_headers": {"X-Key": "T"}},
            {"endpoint": "https://a.example", "headers_env": {"X-Key": "T"}},
        ),
        *(
            (
                {"url": "https://a.example", "headers": {"Authorization": f"Bearer {reference}"}},
                {"endpoint": "https://a.example", "auth_bearer_env": "MY_VAR"},
            )
            for reference in ("$MY_VAR", "${MY_VAR}", "${env:MY_VAR}", "{env:MY_VAR}", "${MY_VAR:-}")
        ),
        (
            {"url": "https://a.example", "headers": {"authorization": "bearer ${input:ask}"}},
            {"endpoint": "https://a.example", "auth_bearer_env": "SRV_TOKEN"},
        ),
    ],
)
def test_an_entry_that_can_be_taken_over(raw: dict[str, Any], entry: dict[str, Any]) -> None:
    adopted = adopt_entry("srv", raw)
    assert adopted.entry == {"name": "srv", **entry}
    assert check_profiles({"p": {"mcp_servers": [adopted.entry]}}) == []


LEAKS: tuple[dict[str, Any], ...] = (
    {"command": "x", "env": {"API_KEY": SECRET, "OTHER": SECRET}},
    {"command": "x", "args": ["--token", SECRET]},
    {"command": "x", "args": [f"--api-key={SECRET}"]},
    {"command": "x", "args": [f"API_KEY={SECRET}"]},
    {"command": "x", "args": ["--header", f"Authorization: Bearer {SECRET}"]},
    {"command": "x", "args": [f"postgres://me:{SECRET}@db.example/x"]},
    {"command": "x", "args": [f"ghp_{SECRET.replace('-', '')}"]},
    {"command": "x", "args": [f"sk-{SECRET}"]},
    {"command": ["x", "--password", SECRET]},
    {"command": "npx", "args": ["mcp-remote", "https://a.example/mcp", "--header", f"X-API-Key:{SECRET}"]},
    {"command": "npx", "args": ["mcp-remote", "https://a.example/mcp", "--header", f"Cookie: sid={SECRET}"]},
    {"command": "npx", "args": ["run", "exa", "--config", json.dumps({"exaApiKey": SECRET})]},
    {"command": "npx", "args": ["run", "exa", "--config", json.dumps({"a": {"password": SECRET}})]},
    {"command": "sh", "args": ["-c", f"export NODE_ENV=x; API_KEY={SECRET} npx foo"]},
    {"command": "sh", "args": ["-c", f"npx foo --auth-token '{SECRET}'"]},
    {"command": "docker", "args": ["run", "-e", f"DB_PASS={SECRET}", "image"]},
    {"command": "x", "args": [f"host=db password={SECRET} user=me"]},
    {"command": "x", "args": ["--jwt", SECRET]},
    {"command": "x.exe", "args": [f"/apikey:{SECRET}"]},
    {"command": "x", "args": [f"4f9c2b{SECRET.replace('-', '')}a1"]},
    {"url": f"https://a.example/api?code={SECRET}"},
    {"url": f"https://me:{SECRET}@a.example/"},
    {"url": f"https://a.example/?api_key={SECRET}"},
    {"url": f"https://a.example/?exaApiKey={SECRET}"},
    {"url": f"https://a.example/sse?access_token={SECRET}"},
    {"url": "https://a.example", "headers": {"Authorization": f"Bearer {SECRET}"}},
    {"url": "https://a.example", "headers": {"Authorization": f"Basic {SECRET}"}},
    {"url": "https://a.example", "headers": {"X-Api-Key": SECRET, "Cookie": SECRET, "Mcp-Session-Id": SECRET}},
    {"url": "https://a.example", "http_headers": {"X-Whatever": SECRET}},
    {"httpUrl": "https://a.example", "headers": {"Authorization": SECRET}},
    {"url": f"https://a.example/api/s/{SECRET.replace('-', '')}aaaa/mcp"},
    {"url": f"https://a.example/mcp#token={SECRET}"},
    {"url": f"https://a.example/mcp?t={SECRET.replace('-', '')}bbbb"},
    {"url": f"https://[{SECRET}"},
    {"command": "npx", "args": ["mcp-remote", f"https://a.example/s/{SECRET.replace('-', '')}cc/mcp"]},
)


@pytest.mark.parametrize("raw", LEAKS, ids=[json.dumps(raw)[:60] for raw in LEAKS])
def test_a_secret_is_never_taken_over(raw: dict[str, Any]) -> None:
    adopted = adopt_entry("srv", raw)
    assert SECRET not in repr(adopted)
    assert SECRET.replace("-", "") not in repr(adopted)
    if adopted.entry is None:
        assert adopted.reason
    else:
        assert adopted.variables or adopted.notes
        assert check_profiles({"p": {"mcp_servers": [adopted.entry]}}) == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({}, "neither a command nor a URL"),
        ("x", "neither a command nor a URL"),
        ({"type": "sse", "url": "https://a.example/sse"}, "HTTP+SSE"),
        ({"command": "x", "args": ["${workspaceFolder}"]}, "refers to variables"),
        ({"command": "x", "args": ["{env:PLACE}"]}, "refers to variables"),
        ({"command": "x", "args": ["$PLACE"]}, "refers to variables"),
        ({"url": "https://a.example/v1/6fa459ea-ee8a-3ca4-894e-db77e160355e/mcp"}, "holds a secret"),
        ({"url": "https://a.example/mcp/a1B-c2D_e3F-g4H_i5J-k6L"}, "holds a secret"),
        ({"command": "x", "args": ["-k", "a1B-c2D_e3F-g4H_i5J-k6L"]}, "holds a secret"),
        ({"command": "x", "args": ["${input:ask me}"]}, "refers to variables"),
        ({"url": "https://${HOST}/mcp"}, "refers to variables"),
        ({"url": "https://{env:HOST}/mcp"}, "refers to variables"),
    ],
)
def test_an_entry_that_is_left_out_says_why(raw: Any, reason: str) -> None:
    adopted = adopt_entry("srv", raw)
    assert adopted.entry is None
    assert reason in (adopted.reason or "")


@pytest.mark.parametrize(
    "args",
    [
        ["--tokenizer", "-x"],
        ["--keyboard"],
        ["monkey"],
        ["--author"],
        ["US$5"],
        ["https://a.example/my-project-123456-prod/v2"],
        ["mcp-remote", "https://auth.example:8443/mcp"],
        ["run", "-v", "/home/me/keys:/keys", "quay.io/keycloak/keycloak:24.0"],
        ["run", f"ghcr.io/a/b@sha256:{'4f9c2b7a' * 8}"],
        ["--from", f"git+https://github.example/a/b@{'4f9c2b7a' * 5}", "b"],
        ["/nix/store/4f9c2b7a1d8e4f9c2b7a1d8e-node-20/bin/x", "-y", "@scope/server-postgres@2025.8.21"],
        ["--model", "claude-3-5-sonnet-2024-10-22-v2"],
    ],
)
def test_a_harmless_argument_is_no_secret(args: list[str]) -> None:
    adopted = adopt_entry("srv", {"command": "x", "args": args})
    assert adopted.entry == {"name": "srv", "command": "x", "args": args}


def test_what_has_to_be_set_and_what_was_left_out_is_told() -> None:
    headers = {"Authorization": "Basic x", "Cookie": "y", "X-Team": "z"}
    adopted = adopt_entry("srv", {"url": "https://a.example", "headers": headers, "env_http_headers": {"X-Key": "K"}})
    assert adopted.variables == (("SRV_X_TEAM", "its header X-Team"), ("K", "its header X-Key"))
    assert adopted.notes == (
        "its Authorization header is no bearer token, and was left out",
        "its header Cookie is not ours to set, and was left out",
    )
    local = adopt_entry("srv", {"command": "x", "env": {"A": "1"}, "envFile": ".env"})
    assert local.variables == (("A", "its environment"),)
    assert local.notes == ("it reads a file of variables in the client, which is not read here",)
    placed = adopt_entry("srv", {"command": "x", "cwd": "${workspaceFolder}", "excludeTools": ["rm", "mv"]})
    assert placed.entry == {"name": "srv", "command": "x"}
    assert placed.notes == (
        "its directory refers to variables of the client, and was left out",
        "the client leaves out its tools rm, mv; name them in deny_tool, or the others in tool_allowlist",
    )
    signed_in = adopt_entry("srv", {"url": "https://a.example", "oauth": {"clientId": "x"}, "headersHelper": "/bin/x"})
    assert signed_in.entry == {"name": "srv", "endpoint": "https://a.example"}
    assert signed_in.notes == (
        "a program of the client gives its headers, which is not run here",
        "the client signs in to it with OAuth, which is not taken over",
    )
