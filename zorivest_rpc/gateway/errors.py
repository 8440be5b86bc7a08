"""What can go wrong between us and an upstream, as a table of codes and one exception class for each of them.

    ToolError
    └── ToolingError(server)                      class TOOLING, exit code 1
        ├── ServerNotFound, ServerDisabled        the wrong server was named
        ├── AuthEnvMissing, AuthEnvEmpty, AuthRejected
        ├── ConnectFailed, NoAnswer, RetryExhausted, CircuitOpen, RedirectRefused, AddressRefused
        ├── ProtocolBroken, UpstreamError, LoopFound, StdioSpawn, StdioExited
        └── CallTimeout, OutputInvalid, TooLarge, InputRequiredUnsupported, Quarantined, Withdrawn    of one tool

Nothing is classified by searching the text of a message: a handler asks for the class, a program for the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from zorivest_rpc.errors import ToolError

__all__ = [
    "AUTH_HINT",
    "DEFAULT_HINT",
    "FAILURES",
    "MESSAGE_LIMIT",
    "AddressRefused",
    "AuthEnvEmpty",
    "AuthEnvMissing",
    "AuthRejected",
    "CallTimeout",
    "CircuitOpen",
    "ConnectFailed",
    "Failure",
    "InputRequiredUnsupported",
    "LoopFound",
    "NoAnswer",
    "OutputInvalid",
    "ProtocolBroken",
    "Quarantined",
    "RedirectRefused",
    "RetryExhausted",
    "ServerDisabled",
    "ServerNotFound",
    "StdioExited",
    "StdioSpawn",
    "TooLarge",
    "ToolingError",
    "UpstreamError",
    "Withdrawn",
    "plain_text",
]

TOOLING: Final = "TOOLING"
MESSAGE_LIMIT: Final = 500  # characters of an upstream's own words that a message repeats
DEFAULT_HINT: Final = (
    'Check the mcp_servers entry, then run "zorivest-rpc mcp discover --server {server}" with ZORIVEST_LOG_LEVEL=info.'
)
AUTH_HINT: Final = "Export {variable} in the environment of the server process and reconnect."


class Failure(NamedTuple):
    """One row of the table: what is told, and whether the same may be tried again as it is."""

    code: str
    text: str
    retryable: bool = False
    hint: str = DEFAULT_HINT


# A code with two rows has two texts: `timeout` is told of a server or of one call.
SERVER_NOT_FOUND: Final = Failure(
    "server_not_found", 'No MCP server named "{server}" in profile "{profile}". Configured: {configured}.'
)
SERVER_DISABLED: Final = Failure("server_disabled", 'MCP server "{server}" is disabled in profile "{profile}".')
AUTH_ENV_MISSING: Final = Failure(
    "auth_env_missing", 'MCP server "{server}": environment variable {variable} is not set.', hint=AUTH_HINT
)
AUTH_ENV_EMPTY: Final = Failure(
    "auth_env_empty", 'MCP server "{server}": environment variable {variable} is empty.', hint=AUTH_HINT
)
AUTH_REJECTED: Final = Failure("auth_rejected", 'MCP server "{server}" rejected the credentials (HTTP {status}).')
CONNECT_FAILED: Final = Failure(
    "connect_failed", 'MCP server "{server}" cannot be reached at {target}: {reason}.', retryable=True
)
TIMEOUT: Final = Failure("timeout", 'MCP server "{server}" gave no complete answer within {seconds} s.', retryable=True)
CALL_TIMEOUT: Final = Failure("timeout", '"{tool}" did not finish within {seconds} s; it may still have taken effect.')
RETRY_EXHAUSTED: Final = Failure(
    "retry_exhausted", 'MCP server "{server}" failed {attempts} times in a row; last error: {last}', retryable=True
)
CIRCUIT_OPEN: Final = Failure(
    "circuit_open",
    'MCP server "{server}" is paused after repeated failures; next trial in {seconds} s.',
    retryable=True,
)
REDIRECT_REFUSED: Final = Failure(
    "redirect_refused",
    'MCP server "{server}" answered with a redirect to {origin}; set endpoint to the final address.',
)
ADDRESS_REFUSED: Final = Failure(
    "address_refused", 'MCP server "{server}" resolves to {address}, which is not allowed ({why}).'
)
PROTOCOL: Final = Failure("protocol", 'MCP server "{server}" broke the protocol: {reason}.')
UPSTREAM_ERROR: Final = Failure("upstream_error", 'MCP server "{server}" reported: {message} (code {number}).')
OUTPUT_INVALID: Final = Failure("output_invalid", '"{tool}" returned data that does not match its output schema.')
TOO_LARGE: Final = Failure("too_large", '"{tool}" returned more than {limit} bytes.')
INPUT_REQUIRED_UNSUPPORTED: Final = Failure(
    "input_required_unsupported", '"{tool}" asks for interactive input, which is not supported.'
)
QUARANTINED: Final = Failure(
    "quarantined",
    '"{tool}" is held because its definition changed since it was approved; '
    "an operator must run: zorivest-rpc mcp pin --server {server}",
)
WITHDRAWN: Final = Failure("withdrawn", '"{tool}" is no longer offered by MCP server "{server}".')
LOOP: Final = Failure("loop", 'MCP server "{server}" leads back to this server ({path}).')
STDIO_SPAWN: Final = Failure("stdio_spawn", 'MCP server "{server}" could not be started: {reason}.', retryable=True)
STDIO_EXITED: Final = Failure("stdio_exited", 'MCP server "{server}" ended (exit {status}).', retryable=True)

FAILURES: Final = (
    *(SERVER_NOT_FOUND, SERVER_DISABLED, AUTH_ENV_MISSING, AUTH_ENV_EMPTY, AUTH_REJECTED, CONNECT_FAILED),
    *(TIMEOUT, CALL_TIMEOUT, RETRY_EXHAUSTED, CIRCUIT_OPEN, REDIRECT_REFUSED, ADDRESS_REFUSED, PROTOCOL),
    *(UPSTREAM_ERROR, OUTPUT_INVALID, TOO_LARGE, INPUT_REQUIRED_UNSUPPORTED, QUARANTINED, WITHDRAWN, LOOP),
    *(STDIO_SPAWN, STDIO_EXITED),
)


def plain_text(words: str, limit: int = MESSAGE_LIMIT) -> str:
    """An upstream's own words on one line without control characters, cut where they are long."""
    # Cut before cleaning: a message of 8 MiB is not walked to show 500 characters of it.
    seen = "".join(char if char.isprintable() else " " for char in words[: 2 * limit])
    line = " ".join(seen.split())
    return line if len(line) <= limit and len(words) <= 2 * limit else line[: limit - 1] + "…"


class ToolingError(ToolError):
    """An upstream, or the way to it, failed. `problem` is the contract's text, `hint` what to do about it."""

    kind = TOOLING
    exit_code = 1

    def __init__(self, failure: Failure, server: str, *, hint: str | None = None, **fields: Any) -> None:
        self.server = server
        self.hint = (hint or failure.hint).format(server=server, **fields)
        self.retryable = failure.retryable
        problem = failure.text.format(server=server, **fields)
        super().__init__(f"{problem} {self.hint}", code=failure.code, next=self.hint, problem=problem)

    def about(self) -> dict[str, Any]:
        return {**super().about(), "server": self.server, "retryable": self.retryable}


class ServerNotFound(ToolingError):
    """`--server` or a toolset names a server that the profile has not."""

    def __init__(self, server: str, profile: str, configured: Iterable[str]) -> None:
        names = ", ".join(configured) or "none"
        super().__init__(SERVER_NOT_FOUND, server, profile=profile, configured=names)


class ServerDisabled(ToolingError):
    def __init__(self, server: str, profile: str) -> None:
        super().__init__(SERVER_DISABLED, server, profile=profile)


class AuthEnvMissing(ToolingError):
    """A variable that holds a credential is not set; it heals when it is, and the server reconnects."""

    def __init__(self, server: str, variable: str) -> None:
        super().__init__(AUTH_ENV_MISSING, server, variable=variable)
        self.variable = variable


class AuthEnvEmpty(ToolingError):
    def __init__(self, server: str, variable: str) -> None:
        super().__init__(AUTH_ENV_EMPTY, server, variable=variable)
        self.variable = variable


class AuthRejected(ToolingError):
    """401 or 403. `variable` is the one that held the refused credential, where one was sent."""

    def __init__(self, server: str, status: int, variable: str | None = None) -> None:
        hint = AUTH_HINT if variable else None
        super().__init__(AUTH_REJECTED, server, hint=hint, status=status, variable=variable)
        self.status = status
        self.variable = variable


class ConnectFailed(ToolingError):
    """`target` is an origin or a command, never a URL with its query; `reason` has no full stop at its end.

    `sent` says whether a byte of the request may have left: only what was never sent is safe to send again."""

    def __init__(self, server: str, target: str, reason: str, *, sent: bool = False) -> None:
        super().__init__(CONNECT_FAILED, server, target=target, reason=reason.rstrip("."))
        self.target = target
        self.reason = reason
        self.sent = sent


class NoAnswer(ToolingError):
    """Connecting, or a list, took longer than `timeout_secs`."""

    def __init__(self, server: str, seconds: int) -> None:
        super().__init__(TIMEOUT, server, seconds=seconds)
        self.seconds = seconds


class CallTimeout(ToolingError):
    """A call was sent and its deadline passed: never repeated."""

    def __init__(self, server: str, tool: str, seconds: int) -> None:
        super().__init__(CALL_TIMEOUT, server, tool=tool, seconds=seconds)
        self.tool = tool
        self.seconds = seconds


class RetryExhausted(ToolingError):
    """The last of two or more attempts failed; a single attempt is told as what it was."""

    def __init__(self, server: str, attempts: int, last: ToolingError) -> None:
        super().__init__(RETRY_EXHAUSTED, server, attempts=attempts, last=last.problem)
        self.attempts = attempts
        self.last = last


class CircuitOpen(ToolingError):
    def __init__(self, server: str, seconds: int) -> None:
        super().__init__(CIRCUIT_OPEN, server, seconds=seconds)
        self.seconds = seconds


class RedirectRefused(ToolingError):
    """`origin` is scheme, host and port of the Location, no more."""

    def __init__(self, server: str, origin: str) -> None:
        super().__init__(REDIRECT_REFUSED, server, origin=plain_text(origin))
        self.origin = origin


class AddressRefused(ToolingError):
    def __init__(self, server: str, address: str, why: str) -> None:
        super().__init__(ADDRESS_REFUSED, server, address=address, why=why)
        self.address = address
        self.why = why


class ProtocolBroken(ToolingError):
    """`reason` is ours, without a full stop; words of the upstream inside it went through `plain_text`."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(PROTOCOL, server, reason=reason.rstrip("."))
        self.reason = reason


class UpstreamError(ToolingError):
    """The upstream answered with a JSON-RPC error; its message is cut and freed of control characters."""

    def __init__(self, server: str, message: str, number: int) -> None:
        super().__init__(UPSTREAM_ERROR, server, message=plain_text(message), number=number)
        self.message = message
        self.number = number


class OutputInvalid(ToolingError):
    def __init__(self, server: str, tool: str) -> None:
        super().__init__(OUTPUT_INVALID, server, tool=tool)
        self.tool = tool


class TooLarge(ToolingError):
    def __init__(self, server: str, tool: str, limit: int) -> None:
        super().__init__(TOO_LARGE, server, tool=tool, limit=limit)
        self.tool = tool
        self.limit = limit


class InputRequiredUnsupported(ToolingError):
    """Sampling, roots, a URL to visit, or a form for a caller who cannot be asked."""

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(INPUT_REQUIRED_UNSUPPORTED, server, tool=tool)
        self.tool = tool


class Quarantined(ToolingError):
    def __init__(self, server: str, tool: str) -> None:
        super().__init__(QUARANTINED, server, tool=tool)
        self.tool = tool


class Withdrawn(ToolingError):
    def __init__(self, server: str, tool: str) -> None:
        super().__init__(WITHDRAWN, server, tool=tool)
        self.tool = tool


class LoopFound(ToolingError):
    """`path` are the ids of the gateways that the request has passed, or as many as are known."""

    def __init__(self, server: str, path: Iterable[str]) -> None:
        self.path = tuple(path)
        super().__init__(LOOP, server, path=" → ".join(plain_text(step, 64) for step in self.path))


class StdioSpawn(ToolingError):
    def __init__(self, server: str, reason: str) -> None:
        super().__init__(STDIO_SPAWN, server, reason=reason.rstrip("."))
        self.reason = reason


class StdioExited(ToolingError):
    """`status` is the exit code, negative for the signal that ended the child.

    `sent` says whether a byte of the request may have reached the child."""

    def __init__(self, server: str, status: int, *, sent: bool = True) -> None:
        super().__init__(STDIO_EXITED, server, status=status)
        self.status = status
        self.sent = sent
