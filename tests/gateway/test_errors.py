"""Each failure of an upstream: its code, text, hint and whether it may be tried again, as the contract has them."""

from __future__ import annotations

import inspect

import pytest

from zorivest_rpc.gateway import errors
from zorivest_rpc.gateway.errors import FAILURES, ToolingError
from zorivest_rpc.mcp.call import fail

CHECK = 'Check the mcp_servers entry, then run "zorivest-rpc mcp discover --server ops" with ZORIVEST_LOG_LEVEL=info.'
EXPORT = "Export OPS_TOKEN in the environment of the server process and reconnect."
HELD = (
    '"ops__find" is held because its definition changed since it was approved; '
    "an operator must run: zorivest-rpc mcp pin --server ops"
)
CASES: tuple[tuple[ToolingError, str, str, str, bool], ...] = (
    (
        errors.ServerNotFound("ops", "work", ["wiki", "files"]),
        *("server_not_found", 'No MCP server named "ops" in profile "work". Configured: wiki, files.', CHECK, False),
    ),
    (
        errors.ServerNotFound("ops", "work", []),
        *("server_not_found", 'No MCP server named "ops" in profile "work". Configured: none.', CHECK, False),
    ),
    (
        errors.ServerDisabled("ops", "work"),
        *("server_disabled", 'MCP server "ops" is disabled in profile "work".', CHECK, False),
    ),
    (
        errors.AuthEnvMissing("ops", "OPS_TOKEN"),
        *("auth_env_missing", 'MCP server "ops": environment variable OPS_TOKEN is not set.', EXPORT, False),
    ),
    (
        errors.AuthEnvEmpty("ops", "OPS_TOKEN"),
        *("auth_env_empty", 'MCP server "ops": environment variable OPS_TOKEN is empty.', EXPORT, False),
    ),
    (
        errors.AuthRejected("ops", 401, "OPS_TOKEN"),
        *("auth_rejected", 'MCP server "ops" rejected the credentials (HTTP 401).', EXPORT, False),
    ),
    (
        errors.AuthRejected("ops", 403),
        *("auth_rejected", 'MCP server "ops" rejected the credentials (HTTP 403).', CHECK, False),
    ),
    (
        errors.ConnectFailed("ops", "https://x.example", "connection refused"),
        *("connect_failed", 'MCP server "ops" cannot be reached at https://x.example: connection refused.'),
        *(CHECK, True),
    ),
    (
        errors.NoAnswer("ops", 15),
        *("timeout", 'MCP server "ops" gave no complete answer within 15 s.', CHECK, True),
    ),
    (
        errors.CallTimeout("ops", "ops__find", 45),
        *("timeout", '"ops__find" did not finish within 45 s; it may still have taken effect.', CHECK, False),
    ),
    (
        errors.RetryExhausted("ops", 3, errors.NoAnswer("ops", 15)),
        "retry_exhausted",
        'MCP server "ops" failed 3 times in a row; last error: MCP server "ops" gave no complete answer within 15 s.',
        *(CHECK, True),
    ),
    (
        errors.CircuitOpen("ops", 30),
        *("circuit_open", 'MCP server "ops" is paused after repeated failures; next trial in 30 s.', CHECK, True),
    ),
    (
        errors.RedirectRefused("ops", "https://y.example"),
        "redirect_refused",
        'MCP server "ops" answered with a redirect to https://y.example; set endpoint to the final address.',
        *(CHECK, False),
    ),
    (
        errors.AddressRefused("ops", "169.254.169.254", "link-local"),
        *("address_refused", 'MCP server "ops" resolves to 169.254.169.254, which is not allowed (link-local).'),
        *(CHECK, False),
    ),
    (
        errors.ProtocolBroken("ops", "the cursor repeats"),
        *("protocol", 'MCP server "ops" broke the protocol: the cursor repeats.', CHECK, False),
    ),
    (
        errors.UpstreamError("ops", "no such index", -32603),
        *("upstream_error", 'MCP server "ops" reported: no such index (code -32603).', CHECK, False),
    ),
    (
        errors.OutputInvalid("ops", "ops__find"),
        *("output_invalid", '"ops__find" returned data that does not match its output schema.', CHECK, False),
    ),
    (
        errors.TooLarge("ops", "ops__find", 4194304),
        *("too_large", '"ops__find" returned more than 4194304 bytes.', CHECK, False),
    ),
    (
        errors.InputRequiredUnsupported("ops", "ops__find"),
        "input_required_unsupported",
        '"ops__find" asks for interactive input, which is not supported.',
        *(CHECK, False),
    ),
    (errors.Quarantined("ops", "ops__find"), "quarantined", HELD, CHECK, False),
    (
        errors.Withdrawn("ops", "ops__find"),
        *("withdrawn", '"ops__find" is no longer offered by MCP server "ops".', CHECK, False),
    ),
    (
        errors.LoopFound("ops", ["a1", "b2", "a1"]),
        *("loop", 'MCP server "ops" leads back to this server (a1 → b2 → a1).', CHECK, False),
    ),
    (
        errors.StdioSpawn("ops", "no such file"),
        *("stdio_spawn", 'MCP server "ops" could not be started: no such file.', CHECK, True),
    ),
    (errors.StdioExited("ops", 3), "stdio_exited", 'MCP server "ops" ended (exit 3).', CHECK, True),
)


@pytest.mark.parametrize(("error", "code", "text", "hint", "retryable"), CASES, ids=[case[1] for case in CASES])
def test_a_failure_is_told_as_the_contract_has_it(
    error: ToolingError, code: str, text: str, hint: str, retryable: bool
) -> None:
    assert (error.problem, error.hint) == (text, hint)
    outcome = fail(error)
    assert outcome.is_error
    assert outcome.content == [{"type": "text", "text": f"{text} {hint}"}]
    about = {"class": "TOOLING", "code": code, "next": hint, "server": "ops", "retryable": retryable}
    assert outcome.meta == {"com.zorivest/error": about}
    assert error.exit_code == 1


def test_every_code_and_every_class_is_among_the_cases() -> None:
    assert {failure.code for failure in FAILURES} == {code for _, code, *_ in CASES}
    classes = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ToolingError)}
    assert {type(error) for error, *_ in CASES} == classes - {ToolingError}


def test_an_upstreams_own_words_are_cut_at_500_characters() -> None:
    def shown(message: str) -> str:
        told = errors.UpstreamError("ops", message, 1).problem
        return told.removeprefix('MCP server "ops" reported: ').removesuffix(" (code 1).")

    assert shown("x" * 500) == "x" * 500
    assert shown("x" * 501) == "x" * 499 + "…"
    assert shown("x " * 300) == ("x " * 250)[:499] + "…"
    assert shown("x" * 2_000_000) == "x" * 499 + "…"


def test_an_upstreams_own_words_stay_on_one_line_and_colour_nothing() -> None:
    told = errors.UpstreamError("ops", "bad\x1b[31m\r\nline {server} \u202e\u2028end", 1).problem
    assert told == 'MCP server "ops" reported: bad [31m line {server} end (code 1).'


def test_an_error_without_fields_of_its_own_is_told_as_before() -> None:
    from zorivest_rpc.errors import ToolError

    assert ToolError("no", code="c", next="n").about() == {"class": "tool", "code": "c", "next": "n"}
    assert ToolError("no").about() == {"class": "tool", "code": "failed"}
