"""Every message about a wrong configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.configured import problems_of, profile_of, server_problems, with_server
from zorivest_rpc.__main__ import main
from zorivest_rpc.config import parse
from zorivest_rpc.config_file import ConfigFileRefused, edit_distance
from zorivest_rpc.gateway.keys import PROFILE_KEYS, SERVER_KEYS

pytestmark = pytest.mark.usefixtures("elsewhere")

# --- every message

NOT_A_NAME = 'is not a usable server name (a-z, 0-9, "-", "_", at most 24 characters, no "__")'
LITERAL = "a literal token is not accepted; name an environment variable in auth_bearer_env"
ONLY_SAFE = "a token may only be sent over https or to a loopback address"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = \n", "not valid TOML: Invalid value (line 1)"),
        ("[profiles.default\n", "not valid TOML: "),
        ("x = 1\n[a]\nb = 'x\n", "(line 3)"),
    ],
)
def test_a_file_that_is_no_toml_says_where(text: str, message: str) -> None:
    Path("config.toml").write_text(text)
    with pytest.raises(ConfigFileRefused) as refused:
        parse("mcp", ["--config", "config.toml"], {})
    (line,) = refused.value.lines()
    assert line.startswith("config.toml: not valid TOML: ")
    assert message in line


def test_a_file_that_is_no_text_or_not_there_is_told() -> None:
    Path("config.toml").write_bytes(b'x = 1\ny = "\xff"\n')
    for name, problem in (
        ("config.toml", "not valid TOML: it is not UTF-8 text (line 2)"),
        ("gone.toml", "cannot be read: No such file or directory"),
    ):
        with pytest.raises(ConfigFileRefused) as refused:
            parse("mcp", ["--config", name], {})
        assert str(refused.value) == f"{name}: {problem}"


@pytest.mark.parametrize(("size", "taken"), [(4 * 1024 * 1024, True), (4 * 1024 * 1024 + 1, False)])
def test_a_file_has_at_most_four_mebibytes(size: int, taken: bool) -> None:
    Path("config.toml").write_bytes(b"#" * size)
    if taken:
        assert parse("mcp", ["--config", "config.toml"], {}).file is not None
        return
    with pytest.raises(ConfigFileRefused) as refused:
        parse("mcp", ["--config", "config.toml"], {})
    assert str(refused.value) == "config.toml: is larger than 4194304 bytes"


def test_a_file_that_is_nested_without_measure_is_told() -> None:
    Path("config.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigFileRefused) as refused:
        parse("mcp", ["--config", "config.toml"], {})
    assert str(refused.value).startswith("config.toml: not valid TOML: ")
    assert str(refused.value).endswith("(line 1)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[profile.default]\n", 'profile: unknown key; did you mean "profiles"?'),
        ("[elsewhere]\n", "elsewhere: unknown key"),
        ("profiles = 3\n", "profiles: expected table, found integer"),
        ("[profiles]\ndefault = 'x'\n", "profiles.default: expected table, found string"),
        ("server = []\n", "server: expected table, found array"),
        ("[server]\nprot = 1\n", 'server.prot: unknown key; did you mean "port"?'),
        ("[server]\napprove_tool = ['x']\n", "server.approve_tool: unknown key"),
        ("[server]\nport = 'x'\n", "server.port: expected integer, found string"),
        ("[server]\nport = -1\n", "server.port: must not be negative, found -1"),
        ("[server]\nread_only = 3\n", "server.read_only: expected boolean, found integer"),
        (
            "[server]\nlog_level = 'loud'\n",
            'server.log_level: must be one of debug, info, warning, error, found "loud"',
        ),
        ("[server]\nexclude_tools = [1]\n", "server.exclude_tools: expected string, found integer"),
        ("[server]\nhost = { a = 1 }\n", "server.host: expected string, found table"),
        ("config = 'x'\n", 'config: unknown key; did you mean "confirm"?'),
        ("[server]\nprofile = 'x'\n", "server.profile: unknown key"),
        (
            "[profiles.default]\ntool_confirmation_mod = 'x'\n",
            'profiles.default.tool_confirmation_mod: unknown key; did you mean "tool_confirmation_mode"?',
        ),
        ("[profiles.default]\nentirely_other = 1\n", "profiles.default.entirely_other: unknown key"),
        (
            "[profiles.default]\ntool_confirmation_mode = 'sometimes'\n",
            'profiles.default.tool_confirmation_mode: must be one of never, mcp-only, always, found "sometimes"',
        ),
        (
            "[profiles.default]\nconfirmation_channel = 'x'\n",
            'profiles.default.confirmation_channel: must be one of auto, elicitation, token, console, none, found "x"',
        ),
        ("[profiles.default]\npin = 'x'\n", 'profiles.default.pin: must be one of tofu, strict, off, found "x"'),
        ("[profiles.default]\napprove_tool = 'x'\n", "profiles.default.approve_tool: expected array, found string"),
        (
            "[profiles.default]\napprove_tool = [true]\n",
            "profiles.default.approve_tool[0]: expected string, found boolean",
        ),
        (
            "[profiles.default]\ntool_timeout_secs = true\n",
            "profiles.default.tool_timeout_secs: expected integer, found boolean",
        ),
        (
            "[profiles.default]\ntool_timeout_secs = 1.5\n",
            "profiles.default.tool_timeout_secs: expected integer, found float",
        ),
        ("[profiles.default]\npin = 1979-05-27\n", "profiles.default.pin: expected string, found date or time"),
        ("[profiles.default]\nmcp_servers = ['x']\n", "profiles.default.mcp_servers[0]: expected table, found string"),
        ("[profiles.'a b']\nx = 1\n", 'profiles."a b".x: unknown key'),
    ],
)
def test_a_wrong_key_or_value_has_its_message(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


BOUNDS = [(keys, key) for keys in (PROFILE_KEYS, SERVER_KEYS) for key in keys if key.bounds]


@pytest.mark.parametrize(("keys", "key"), BOUNDS, ids=[key.name for _, key in BOUNDS])
def test_a_number_is_within_its_range_from_both_sides(keys: object, key: object) -> None:
    from zorivest_rpc.gateway.keys import Key

    assert isinstance(key, Key)
    assert key.bounds is not None
    low, high = key.bounds
    table = "[profiles.default]\n"
    path = f"profiles.default.{key.name}"
    if keys is SERVER_KEYS:
        table = '[[profiles.default.mcp_servers]]\nname = "a"\ncommand = "x"\n'
        path = f"profiles.default.mcp_servers[0].{key.name}"
    write = "{} = {{ t = {} }}" if key.kind == "table" else "{} = {}"
    path += ".t" if key.kind == "table" else ""
    for value in (low, high):
        profile_of(table + write.format(key.name, value))
    for value in (low - 1, high + 1):
        wanted = f"{path}: must be between {low} and {high}, found {value}"
        assert problems_of(table + write.format(key.name, value)) == [wanted]


@pytest.mark.parametrize("name", ["a", "a-b_c", "0", "x" * 24, "a--b"])
def test_a_usable_server_name(name: str) -> None:
    assert profile_of(f'[[profiles.default.mcp_servers]]\nname = "{name}"\ncommand = "x"\n').server(name.upper())


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "_a", "a_", "a__b", "x" * 25, "a.b", "a b", "ä"])
def test_a_server_name_that_cannot_be_used(name: str) -> None:
    assert server_problems(f'name = "{name}"\ncommand = "x"\n') == [f'name: "{name}" {NOT_A_NAME}']


def test_a_server_without_a_name_or_a_way_to_it() -> None:
    assert server_problems("enabled = true\n") == ["name: required key is missing", "set endpoint or command"]
    for command in ("", " "):
        assert server_problems(f'name = "a"\ncommand = "{command}"\n') == ["set endpoint or command"]


def test_a_server_has_one_way_to_it() -> None:
    both = "set either endpoint or command, not both"
    assert with_server('command = "x"\n') == [both]
    assert with_server("args = []\n") == [f"args: {both}"]
    assert with_server('cwd = "/"\nenv_pass = ["A"]\n') == [f"cwd: {both}", f"env_pass: {both}"]


def test_a_server_name_is_used_once() -> None:
    server = '[[profiles.default.mcp_servers]]\nname = "{}"\ncommand = "x"\n'
    found = problems_of("".join(server.format(name) for name in ("a", "b", "a", "a")))
    path = "profiles.default.mcp_servers"
    assert found == [
        f'{path}[2].name: server name "a" is used twice (entries 0 and 2)',
        f'{path}[3].name: server name "a" is used twice (entries 0 and 3)',
    ]
    mixed = problems_of("".join(server.format(name) for name in ("ab", "AB")))
    assert f'{path}[1].name: server name "AB" is used twice (entries 0 and 1)' in mixed


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://a.example", "//a.example/x", "https://", "https:///x"],
)
def test_an_endpoint_that_is_no_address(url: str) -> None:
    lines = f'name = "a"\nendpoint = "{url}"\n'
    assert server_problems(lines) == [f'endpoint: "{url}" is not an absolute http or https URL']


def test_what_may_be_secret_in_a_wrong_address_is_not_repeated() -> None:
    found = server_problems('name = "a"\nendpoint = "https://a.example/x?q#hunter2"\n')
    assert found == ['endpoint: "https://a.example/x#…" is not an absolute http or https URL']


@pytest.mark.parametrize(
    "url", ["https://a.example:99999", "https://a.example/a b", "http://[::1", "https://a.example:0/"]
)
def test_an_endpoint_of_which_one_part_is_wrong(url: str) -> None:
    lines = f'name = "a"\nendpoint = "{url}"\n'
    assert server_problems(lines) == [f'endpoint: "{url}" is not an absolute http or https URL']


@pytest.mark.parametrize(
    "url",
    [
        "https://me@a.example",
        "https://me:hunter2@a.example/x",
        "ftp://me:hunter2@a.example",
        "https//me:hunter2@a.example",
    ],
)
def test_an_endpoint_carries_no_password_and_the_message_does_not_either(url: str) -> None:
    found = server_problems(f'name = "a"\nendpoint = "{url}"\n')
    assert found == ["endpoint: the URL must not carry a user name or password"]


def test_a_message_about_an_endpoint_has_no_query() -> None:
    found = server_problems('name = "a"\nendpoint = "a.example/x?key=hunter2"\n')
    assert found == ['endpoint: "a.example/x" is not an absolute http or https URL']


@pytest.mark.parametrize(
    "url", ["https://a.example/@team", "http://a.example", "HTTPS://a.example/x?y=1", "http://[::1]:1/"]
)
def test_an_endpoint_that_is_taken(url: str) -> None:
    profile_of(f'[[profiles.default.mcp_servers]]\nname = "a"\nendpoint = "{url}"\n')


@pytest.mark.parametrize("key", ["auth_bearer", "token", "bearer", "api_key"])
def test_a_literal_token_is_refused_and_not_repeated(key: str) -> None:
    assert with_server(f'{key} = "hunter2"\n') == [f"{key}: {LITERAL}"]


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ('auth_bearer_env = "sk-hunter2"', "auth_bearer_env"),
        ('headers_env = { X-Key = "hunter 2" }', "headers_env.X-Key"),
        ('auth_bearer_env_by_tenant = { acme = "hunter-2" }', "auth_bearer_env_by_tenant.acme"),
    ],
)
def test_a_token_in_the_place_of_a_variable_is_refused_and_not_repeated(lines: str, place: str) -> None:
    assert with_server(lines) == [f"{place}: {LITERAL}"]


TOKENS = (
    ("auth_bearer_env", '"T"'),
    ("headers_env", '{ X-Key = "T" }'),
    ("auth_bearer_env_by_tenant", '{ acme = "T" }'),
)


@pytest.mark.parametrize(("key", "value"), TOKENS)
@pytest.mark.parametrize("host", ["a.example", "10.0.0.1", "127.0.0.1.example", "[fe80::1]", "0.0.0.0"])
def test_a_token_goes_over_plain_http_to_no_other_machine(key: str, value: str, host: str) -> None:
    assert server_problems(f'name = "a"\nendpoint = "http://{host}/x"\n{key} = {value}\n') == [f"{key}: {ONLY_SAFE}"]


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8080"])
def test_a_token_goes_over_plain_http_to_this_machine(host: str) -> None:
    text = f'[[profiles.default.mcp_servers]]\nname = "a"\nendpoint = "http://{host}/x"\nauth_bearer_env = "T"\n'
    assert profile_of(text).mcp_servers[0].auth_bearer_env == "T"


@pytest.mark.parametrize(
    "header",
    [
        *("Authorization", "authorization", "Host", "Mcp-Session-Id", "MCP-Protocol-Version", "Connection", "TE"),
        *("Transfer-Encoding", "Content-Length", "Cookie", "X Y", "Keep-Alive", "Proxy-Authenticate"),
        *("Proxy-Authorization", "Proxy-Connection", "Trailer", "Upgrade", "Content-Type", "Content-Encoding"),
        *("Accept", "Expect", "Last-Event-ID"),
    ],
)
def test_a_header_that_is_not_the_operators_to_set(header: str) -> None:
    quoted = f'"{header}"'
    key = header if " " not in header else quoted
    assert with_server(f'headers_env = {{ {quoted} = "V" }}') == [
        f'headers_env.{key}: header "{header}" cannot be set here'
    ]


def test_an_alias_is_free_and_used_once() -> None:
    server = '[[profiles.default.mcp_servers]]\nname = "{}"\ncommand = "x"\ntool_aliases = {{ {} }}\n'
    text = server.format("a", 't = "create_trade", u = "mine"') + server.format("b", 'v = "mine", w = "a.b"')
    path = "profiles.default.mcp_servers"
    assert problems_of(text, built_in=("create_trade",)) == [
        f'{path}[0].tool_aliases.t: alias "create_trade" is the name of a built-in tool',
        f'{path}[1].tool_aliases.v: alias "mine" is used twice',
        f'{path}[1].tool_aliases.w: alias "a.b" is not a usable tool name '
        '(A-Z, a-z, 0-9, "-", "_", at most 64 characters)',
    ]


BROKEN = """
port = "x"
[server]
hots = "a"
[profiles.default]
pin = "maybe"
[[profiles.default.mcp_servers]]
name = "a"
token = "hunter2"
[profiles.other]
nonsense = 1
"""


def test_all_problems_of_a_file_are_told_together_by_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.toml").write_text(BROKEN)
    assert main(["--config", "config.toml", "tools", "list"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "config.toml: port: expected integer, found string",
        'config.toml: server.hots: unknown key; did you mean "host"?',
        'config.toml: profiles.default.pin: must be one of tofu, strict, off, found "maybe"',
        f"config.toml: profiles.default.mcp_servers[0].token: {LITERAL}",
        "config.toml: profiles.default.mcp_servers[0]: set endpoint or command",
        "config.toml: profiles.other.nonsense: unknown key",
    ]


@pytest.mark.parametrize(
    ("left", "right", "distance"),
    [("abc", "abc", 0), ("abc", "abd", 1), ("abc", "ab", 1), ("abcd", "bacd", 2), ("abc", "xyz", 3), ("", "ab", 2)],
)
def test_letters_that_differ(left: str, right: str, distance: int) -> None:
    assert edit_distance(left, right) == edit_distance(right, left) == distance
