"""The keys of a profile and of a server in it, as two tables: the check, the defaults and the reference read them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["IGNORED", "LITERAL_TOKENS", "PROFILE_KEYS", "SERVER_KEYS", "Key"]


class Key(msgspec.Struct, frozen=True):
    """`kind` is the TOML type; `inside` that of the members of an array or table, where it is not string."""

    name: str
    kind: str
    default: Any
    meaning: str
    bounds: tuple[int, int] | None = None
    choices: tuple[str, ...] = ()
    inside: str = "string"
    required: bool = False


PROFILE_KEYS: Final = (
    Key(
        "tool_confirmation_mode",
        "string",
        "mcp-only",
        "which tools are confirmed before they run: only the gated ones, those of other servers too, or every one",
        choices=("never", "mcp-only", "always"),
    ),
    Key("require_confirm_tool", "array", (), "patterns of further tools that are confirmed"),
    Key(
        "approve_tool", "array", (), "patterns of tools that run without a question; a destructive one by its name only"
    ),
    Key("deny_tool", "array", (), "patterns of tools that cannot be called"),
    Key("confirm_destructive", "boolean", True, "a tool that calls itself destructive is confirmed in every mode"),
    Key(
        "confirmation_channel",
        "string",
        "auto",
        "the only way in which a confirmation is taken; none refuses what is not approved",
        choices=("auto", "elicitation", "token", "console", "none"),
    ),
    Key("tool_timeout_secs", "integer", 45, "deadline of one call, all attempts together", (1, 3600)),
    Key("tool_retry_attempts", "integer", 2, "attempts in total, the first included", (1, 10)),
    Key("tool_retry_delay_ms", "integer", 500, "wait before the second attempt; doubled, at most 30 s", (0, 60_000)),
    Key(
        "pin",
        "string",
        "tofu",
        "a changed definition is held back (tofu), nothing is published until it was pinned (strict), or neither (off)",
        choices=("tofu", "strict", "off"),
    ),
    Key("max_upstream_tools", "integer", 120, "tools of other servers that are published in all", (1, 500)),
    Key("mcp_servers", "array", (), "the servers, in order of precedence", inside="table"),
)

SERVER_KEYS: Final = (
    Key("name", "string", None, 'unique name: a-z, 0-9, "-", "_", at most 24 characters, no "__"', required=True),
    Key("endpoint", "string", None, "URL of a Streamable HTTP server; this or `command`"),
    Key("command", "string", None, "program of a stdio server, found by PATH and never run through a shell"),
    Key("args", "array", (), "its arguments"),
    Key("cwd", "string", None, "its working directory"),
    Key("env_pass", "array", (), "variables that it is handed besides PATH, HOME, LANG and TMPDIR"),
    Key("enabled", "boolean", True, "false: configured and never contacted"),
    Key("timeout_secs", "integer", 15, "connecting, handshake and all lists together", (1, 300)),
    Key("call_timeout_secs", "integer", None, "deadline of a call, instead of the profile's", (1, 3600)),
    Key(
        "tool_timeouts", "table", {}, "deadline of a call by its name at the server; wins", (1, 3600), inside="integer"
    ),
    Key("auth_bearer_env", "string", None, "variable that holds the bearer token, read at each connection"),
    Key("headers_env", "table", {}, "further headers and the variables that hold their values"),
    Key("tool_allowlist", "array", None, "names at the server, `*` allowed; unset means all, an empty list none"),
    Key("prompt_allowlist", "array", None, "likewise of prompts; unset means none where `tool_allowlist` is set"),
    Key("resource_allowlist", "array", None, "likewise of resource URIs"),
    Key("tool_aliases", "table", {}, "name at the server and the whole name that clients see instead"),
    Key("prefix", "boolean", True, "false publishes the bare name, without `<server>__` in front"),
    Key("autoload", "boolean", True, "false: the toolset is loaded by `enable_toolset` alone"),
    Key(
        "era",
        "string",
        "auto",
        "which generation of the protocol it speaks, where that must not be found out",
        choices=("auto", "modern", "legacy"),
    ),
    Key("trust_annotations", "boolean", False, "its `readOnlyHint` and `idempotentHint` are believed"),
    Key("allow_private_network", "boolean", False, "it may have an address of a private network"),
    Key("argument_renames", "table", {}, "argument at the server and its name here, for `clientId` and the like"),
    Key("shared", "boolean", False, "with tenants: one connection serves all of them"),
    Key("tenants", "array", (), "with tenants: those that may use it"),
    Key("auth_bearer_env_by_tenant", "table", {}, "with tenants: the variable of each one's token"),
    Key("max_result_bytes", "integer", 4 * 1024 * 1024, "a larger result is an error", (1024, 64 * 1024 * 1024)),
)

# A profile that was written for the program that these profiles come from loads as it is.
IGNORED: Final = ("provider", "model")
# A token does not belong into a file, so these names get an advice instead of "unknown key".
LITERAL_TOKENS: Final = ("auth_bearer", "token", "bearer", "api_key")
