"""Profiles and servers: what they mean, and which of two values counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.configured import problems_of, profile_of, write
from tests.places import ROOT
from zorivest_rpc.config import OPTIONS, parse
from zorivest_rpc.config_file import own_path, read, trust
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import Profile, Server, join, load_profile, take_reloaded
from zorivest_rpc.gateway.keys import PROFILE_KEYS, SERVER_KEYS

pytestmark = pytest.mark.usefixtures("elsewhere")
EXAMPLE = ROOT / "tests" / "gateway" / "fixtures" / "example.toml"

# --- what a file means


def test_the_example_of_the_contract_loads() -> None:
    profile = load_profile(parse("mcp", ["--config", str(EXAMPLE)], {"HOME": "/nowhere"}))
    assert (profile.name, profile.file) == ("default", str(EXAMPLE))
    assert (profile.tool_confirmation_mode, profile.approve_tool) == ("mcp-only", ("ops-tools__get_runbook",))
    assert profile.mcp_servers == (
        Server(
            name="ops-tools",
            endpoint="https://mcp.example.com/ops",
            timeout_secs=15,
            auth_bearer_env="OPS_MCP_TOKEN",
            tool_allowlist=("search_incidents", "get_runbook"),
        ),
    )


def test_no_file_is_an_empty_profile_and_no_error() -> None:
    profile = load_profile(parse("mcp", [], {"HOME": str(Path.cwd())}))
    assert (profile, profile.enabled) == (Profile(), ())


def test_the_tables_of_keys_have_the_defaults_of_the_structs() -> None:
    for keys, made in ((PROFILE_KEYS, Profile()), (SERVER_KEYS, Server(name="x"))):
        for key in keys:
            assert key.name == "name" or getattr(made, key.name) == key.default, key.name
    of_a_part = {"tenant", "tokens_of_others"}
    assert {key.name for key in SERVER_KEYS} == set(Server.__struct_fields__) - of_a_part
    assert {key.name for key in PROFILE_KEYS} == set(Profile.__struct_fields__) - {"name", "file", "warnings"}


def test_every_server_key_is_taken() -> None:
    profile = profile_of(
        """
        [[profiles.default.mcp_servers]]
        name = "a"
        command = "prog"
        args = ["-x", "1"]
        cwd = "/srv"
        env_pass = ["TOKEN_A", "B"]
        enabled = false
        timeout_secs = 300
        call_timeout_secs = 7
        tool_timeouts = { slow = 3600 }
        tool_allowlist = ["*"]
        prompt_allowlist = ["p*"]
        resource_allowlist = ["file:///x*"]
        tool_aliases = { t = "other" }
        prefix = false
        autoload = false
        era = "legacy"
        trust_annotations = true
        allow_private_network = true
        argument_renames = { clientId = "their_client" }
        shared = true
        tenants = ["acme"]
        auth_bearer_env_by_tenant = { acme = "ACME_TOKEN" }
        headers_env = { "X-Api-Key" = "X_KEY" }
        max_result_bytes = 1024
        """
    )
    (server,) = profile.mcp_servers
    assert profile.enabled == ()
    assert (server.command, server.args, server.cwd, server.env_pass) == ("prog", ("-x", "1"), "/srv", ("TOKEN_A", "B"))
    assert (server.timeout_secs, server.call_timeout_secs, server.tool_timeouts) == (300, 7, {"slow": 3600})
    assert (server.prompt_allowlist, server.resource_allowlist) == (("p*",), ("file:///x*",))
    assert (server.prefix, server.autoload, server.era, server.trust_annotations) == (False, False, "legacy", True)
    assert (server.shared, server.tenants, server.max_result_bytes) == (True, ("acme",), 1024)
    assert server.secret_variables == ("X_KEY", "ACME_TOKEN")
    assert [server.call_seconds(tool, profile) for tool in ("slow", "quick")] == [3600, 7]
    assert Server(name="b").call_seconds("slow", profile) == 45


def test_a_profile_written_for_the_original_tool_loads() -> None:
    assert profile_of('[profiles.default]\nprovider = "openai"\nmodel = "gpt"\n').mcp_servers == ()


def test_a_list_for_tools_lets_nothing_else_through() -> None:
    tools_only = Server(name="a", tool_allowlist=("read_*",))
    seen = [tools_only.allows(kind, "read_x") for kind in ("tool", "prompt", "resource")]
    assert seen == [True, False, False]
    assert not tools_only.allows("tool", "write_x")
    assert [Server(name="a").allows(kind, "x") for kind in ("tool", "prompt", "resource")] == [True, True, True]
    both = Server(name="a", tool_allowlist=("t",), prompt_allowlist=("p",))
    assert [both.allows("prompt", name) for name in ("p", "t")] == [True, False]
    assert not Server(name="a", tool_allowlist=()).allows("tool", "t")


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_an_empty_allowlist_is_told(kind: str) -> None:
    text = f'[[profiles.default.mcp_servers]]\nname = "a"\ncommand = "x"\n{kind}_allowlist = []\n'
    told = f'MCP server "a": {kind}_allowlist is empty, so none of its {kind}s is offered'
    assert profile_of(text).warnings == (told,)


# --- which value counts

SCALARS = (
    ("tool_confirmation_mode", "never", "always", "mcp-only"),
    ("tool_timeout_secs", 10, 20, 30),
    ("tool_retry_attempts", 3, 4, 5),
    ("tool_retry_delay_ms", 100, 200, 300),
)


@pytest.mark.parametrize(("key", "profile", "variable", "flag"), SCALARS, ids=[row[0] for row in SCALARS])
def test_flag_over_environment_over_profile(key: str, profile: object, variable: object, flag: object) -> None:
    written = f'"{profile}"' if isinstance(profile, str) else profile
    text = f"[profiles.default]\n{key} = {written}\n"
    environ = {f"ZORIVEST_{key.upper()}": str(variable)}
    argv = (f"--{key.replace('_', '-')}", str(flag))
    assert getattr(profile_of(text), key) == profile
    assert getattr(profile_of(text, environ=environ), key) == variable
    assert getattr(profile_of(text, *argv, environ=environ), key) == flag
    assert getattr(profile_of("", *argv), key) == flag


@pytest.mark.parametrize("key", ["require_confirm_tool", "approve_tool"])
def test_lists_are_joined(key: str) -> None:
    flag = f"--{key.replace('_', '-')}"
    text = f'[profiles.default]\n{key} = [" a ", "b", "", "a"]\n'
    environ = {f"ZORIVEST_{key.upper()}": "c, b ,,d"}
    joined = getattr(profile_of(text, flag, "e", flag, "c", flag, "a", environ=environ), key)
    assert joined == ("a", "b", "c", "d", "e")


def test_deny_tool_has_the_profile_alone() -> None:
    assert profile_of('[profiles.default]\ndeny_tool = ["x", " x "]\n').deny_tool == ("x",)
    for key in {key.name for key in PROFILE_KEYS} - {option.name for option in OPTIONS} - {"mcp_servers"}:
        flag = f"--{key.replace('_', '-')}"
        with pytest.raises(ConfigError) as refused:
            parse("mcp", [flag, "x"], {})
        words = f"{flag}: unknown option of mcp; {key} is a key of a profile in the configuration file"
        assert str(refused.value) == words


def test_join_keeps_the_first_position() -> None:
    assert join(["b", "a"], ["a", "c", "b"]) == ("b", "a", "c")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("--tool-timeout-secs", "0"), "--tool-timeout-secs: must be between 1 and 3600, found 0"),
        (("--tool-timeout-secs", "3601"), "--tool-timeout-secs: must be between 1 and 3600, found 3601"),
        (("--tool-retry-attempts", "11"), "--tool-retry-attempts: must be between 1 and 10, found 11"),
        (("--tool-retry-delay-ms", "60001"), "--tool-retry-delay-ms: must be between 0 and 60000, found 60001"),
    ],
)
def test_a_flag_has_the_range_of_its_key(argv: tuple[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse("mcp", argv, {})
    assert str(refused.value) == problem


def test_the_profile_is_chosen_by_flag_then_variable_then_default() -> None:
    text = "[profiles.default]\ntool_timeout_secs = 1\n[profiles.a]\ntool_timeout_secs = 2\n[profiles.b]\n"
    environ = {"ZORIVEST_PROFILE": "a"}
    assert profile_of(text).tool_timeout_secs == 1
    assert profile_of(text, environ=environ).tool_timeout_secs == 2
    assert profile_of(text, "--profile", "b", environ=environ).tool_timeout_secs == 45
    assert profile_of("[profiles.a]\n").name == "default"


def test_a_profile_that_is_not_there_is_an_error() -> None:
    text = "[profiles.default]\n[profiles.work]\n"
    wanted = 'profiles: profile "wrk" does not exist; known profiles: default, work'
    assert problems_of(text, "--profile", "wrk") == [wanted]
    assert problems_of("", "--profile", "default")[0].endswith("known profiles: none")
    with pytest.raises(ConfigError) as refused:
        load_profile(parse("mcp", ["--profile", "x"], {"HOME": str(Path.cwd())}))
    assert str(refused.value) == '--profile: profile "x" does not exist; known profiles: none'


def test_reading_again_takes_servers_and_lists_alone() -> None:
    before = profile_of('[profiles.default]\npin = "off"\ntool_timeout_secs = 5\n', "--approve-tool", "flag")
    text = """
    [profiles.default]
    pin = "strict"
    tool_timeout_secs = 9
    approve_tool = ["a"]
    require_confirm_tool = ["r"]
    deny_tool = ["d"]
    [[profiles.default.mcp_servers]]
    name = "x"
    command = "y"
    tool_allowlist = []
    """
    after = take_reloaded(before, profile_of(text, "--approve-tool", "flag"))
    assert (after.pin, after.tool_timeout_secs) == ("off", 5)
    assert (after.approve_tool, after.require_confirm_tool, after.deny_tool) == (("a", "flag"), ("r",), ("d",))
    assert [server.name for server in after.mcp_servers] == ["x"]
    assert len(after.warnings) == 1


def test_reading_again_does_not_change_over_to_another_file(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    write(Path(own_path(environ, "linux")), "[profiles.default]\n")
    local = write(Path(".zorivest/config.toml"), '[profiles.default]\ndeny_tool = ["x"]\n')
    trust(str(local), read(str(local)).sha256, parse("mcp", [], environ).data_dir)
    running = load_profile(parse("mcp", [], environ))
    local.write_text("[profiles.default]\n")
    with pytest.raises(ConfigError, match="is not the file that counts now"):
        take_reloaded(running, load_profile(parse("mcp", [], environ)))
