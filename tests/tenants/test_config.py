"""The tenants of a server: sources, limits, and every message, as an operator sees them."""

from __future__ import annotations

import gzip
import json
import os
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.config import parse
from zorivest_rpc.tenants.config import Tenant, Tenants, load_tenants, normalise_id
from zorivest_rpc.tenants.sources import TenantsRefused, compress

ACME = {"apiBaseUrl": "https://acme.example.com/api/v1", "apiKeyEnv": "ACME_KEY", "name": "Acme Capital"}
POS = {
    "apiBaseUrl": "https://pos.example.com",
    "apiKeyEnv": "SECHPOS_KEY",
    "httpTimeoutMs": 10000,
    "toolsets": ["trade-analytics", "tax"],
}
KEY = sha256(b"zrv_ak_1").hexdigest()
GOOD: dict[str, Any] = {
    "acme": ACME,
    "sechpos": POS,
    "$access": [{"keySha256": KEY.upper(), "name": "desk-1", "clients": ["ACME"], "seat": "admin"}],
}
TOML = f"""\
[clients.acme]
apiBaseUrl = "https://acme.example.com/api/v1"
apiKeyEnv = "ACME_KEY"
name = "Acme Capital"

[clients.sechpos]
apiBaseUrl = "https://pos.example.com"
apiKeyEnv = "SECHPOS_KEY"
httpTimeoutMs = 10000
toolsets = ["trade-analytics", "tax"]

[[access]]
keySha256 = "{KEY}"
name = "desk-1"
clients = ["acme"]
seat = "admin"
"""
NAMES = ("core", "discovery", "trade-analytics", "tax")


def load(environ: Mapping[str, str], *argv: str) -> Tenants | None:
    environ = {"HOME": "/nowhere", **environ}
    return load_tenants(parse("serve", argv, environ), environ, NAMES)


def load_text(value: Any) -> Tenants:
    text = value if isinstance(value, str) else json.dumps(value)
    tenants = load({"CLIENTS_CONFIG": text})
    assert tenants is not None
    return tenants


def lines_of(value: Any) -> list[str]:
    with pytest.raises(TenantsRefused) as refused:
        load_text(value)
    return str(refused.value).split("\n")


def write(path: Path, data: bytes | str, mode: int = 0o600) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(mode)
    return str(path)


# --- sources


def test_without_a_source_there_are_no_tenants() -> None:
    assert load({}) is None


def test_every_source_gives_equal_tenants(tmp_path: Path) -> None:
    text = json.dumps(GOOD)
    packed = compress(text.encode())
    broken = "\n".join(packed[at : at + 20] for at in range(0, len(packed), 20))
    by_file = [
        write(tmp_path / "t.json", text),
        write(tmp_path / "t.json.gz", gzip.compress(text.encode())),
        write(tmp_path / "t.toml", TOML),
    ]
    found = [load({"CLIENTS_CONFIG": value}) for value in (text, packed, f"  \n{broken}\r\n")]
    found += [load({}, "--tenants-file", path) for path in by_file]
    found += [load({"ZORIVEST_TENANTS_FILE": by_file[0]})]
    facts = [None if each is None else (each.tenants, each.access) for each in found]
    assert facts[0] is not None
    assert all(each == facts[0] for each in facts)
    assert [each.source for each in found if each] == [*["CLIENTS_CONFIG"] * 3, *by_file, by_file[0]]
    assert found[0] is not None
    acme, pos = found[0].tenants["acme"], found[0].tenants["sechpos"]
    assert (acme.api_base_url, acme.http_timeout_ms, acme.toolsets) == (ACME["apiBaseUrl"], 30_000, None)
    assert pos.api_base_url == "https://pos.example.com/api/v1"
    assert pos.toolsets == ("core", "discovery", "trade-analytics", "tax")
    assert found[0].access[0].clients == ("acme",)
    assert (found[0].access[0].key_sha256, found[0].access[0].seat) == (KEY, "admin")


def test_the_alias_of_the_original_is_taken() -> None:
    acme = load_text({"acme": {"coreBaseUrl": "http://127.0.0.1:1/", "authorization": "Bearer x"}}).tenants["acme"]
    assert acme.api_base_url == "http://127.0.0.1:1/api/v1"


def test_ids_are_normalised_at_load() -> None:
    assert list(load_text({" AcMe_1 ": ACME}).tenants) == ["acme_1"]


@pytest.mark.parametrize(
    ("environ", "argv"),
    [
        ({"CLIENTS_CONFIG": "{}", "ZORIVEST_TENANTS_FILE": "x.json"}, ()),
        ({"CLIENTS_CONFIG": "{}"}, ("--tenants-file", "x.json")),
        ({"ZORIVEST_TENANTS_FILE": "x.json"}, ("--tenants-file", "x.json")),
        ({"ZORIVEST_TENANTS_FILE": ""}, ("--tenants-file", "x.json")),
    ],
)
def test_two_sources_are_refused(environ: dict[str, str], argv: tuple[str, ...]) -> None:
    with pytest.raises(TenantsRefused) as refused:
        load(environ, *argv)
    assert str(refused.value) == "Set only one of --tenants-file, ZORIVEST_TENANTS_FILE and CLIENTS_CONFIG."


@pytest.mark.parametrize("blank", ["", "  \n"])
@pytest.mark.parametrize("name", ["CLIENTS_CONFIG", "ZORIVEST_TENANTS_FILE"])
def test_set_but_empty_is_never_off(name: str, blank: str) -> None:
    with pytest.raises(TenantsRefused) as refused:
        load({name: blank})
    assert str(refused.value) == f"{name} is set but empty."


def test_an_empty_flag_is_never_off() -> None:
    with pytest.raises(TenantsRefused, match=r"^--tenants-file is set but empty\.$"):
        load({}, "--tenants-file=")


# --- what cannot be read


def bomb() -> str:
    return compress(b'{"a":' + b" " * (64 * 1024 * 1024) + b"{}}")


PACKED = b64encode(gzip.compress(json.dumps(GOOD).encode(), mtime=0))
BROKEN = "CLIENTS_CONFIG: looks compressed but cannot be decompressed: "


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"a": }', "CLIENTS_CONFIG: not valid JSON: Expecting value (line 1, column 7)"),
        ('{\n "a" 1}', "CLIENTS_CONFIG: not valid JSON: Expecting ':' delimiter (line 2, column 6)"),
        ('{"a": NaN}', "CLIENTS_CONFIG: not valid JSON: NaN is no JSON (line 1, column 1)"),
        ("[" * 100_000, "CLIENTS_CONFIG: not valid JSON: it is nested too deeply (line 1, column 1)"),
        ("[]", "CLIENTS_CONFIG: must be an object mapping client ids to settings"),
        ('"acme"', "CLIENTS_CONFIG: must be an object mapping client ids to settings"),
        ("{}", "CLIENTS_CONFIG: contains no clients"),
        ('{"$access": []}', "CLIENTS_CONFIG: contains no clients"),
        (" " * 300_000 + "{}", "CLIENTS_CONFIG: larger than 256 KiB"),
        (PACKED[:-40].decode(), BROKEN + "it ends too early"),
        ("H4sI!!!!", BROKEN + "Only base64 data is allowed"),
        (b64encode(b"\x1f\x8b\x08\x00" + b"\xff" * 40).decode(), BROKEN + "invalid block type"),
        (b64encode(gzip.compress(b"", mtime=0) * 20).decode(), BROKEN + "it has too many parts"),
    ],
)
def test_a_text_that_is_no_configuration_is_told(text: str, line: str) -> None:
    assert lines_of(text) == [line]


def test_a_decompression_bomb_stops_at_four_megabytes() -> None:
    import tracemalloc

    text = bomb()
    assert len(text) < 256 * 1024
    tracemalloc.start()
    try:
        assert lines_of(text) == ["CLIENTS_CONFIG: decompressed size exceeds 4 MiB"]
        assert tracemalloc.get_traced_memory()[1] < 24 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_a_file_is_named_in_place_of_the_variable(tmp_path: Path) -> None:
    cases = {
        "none.json": None,
        "bad.json": '{"a": }',
        "bad.json.gz": gzip.compress(b"{}")[:-4],
        "bad.toml": "[clients\n",
        "empty.toml": "",
        "other.toml": "[client.acme]\n[clients.x]\nembedded = true\n",
        "wrong.yaml": "{}",
        "latin.json": b'{"a":\n "\xe9"}',
    }
    told = {}
    for name, data in cases.items():
        path = str(tmp_path / name) if data is None else write(tmp_path / name, data)
        with pytest.raises(TenantsRefused) as refused:
            load({}, "--tenants-file", path)
        told[name] = str(refused.value).replace(f"{tmp_path}/", "")
    assert told == {
        "none.json": "none.json: cannot be read: No such file or directory",
        "bad.json": "bad.json: not valid JSON: Expecting value (line 1, column 7)",
        "bad.json.gz": "bad.json.gz: looks compressed but cannot be decompressed: it ends too early",
        "bad.toml": "bad.toml: not valid TOML: Expected ']' at the end of a table declaration (line 1)",
        "empty.toml": "empty.toml: contains no clients",
        "other.toml": 'other.toml: unknown key "client"; did you mean "clients"?',
        "wrong.yaml": "wrong.yaml: must end in .json, .json.gz or .toml",
        "latin.json": "latin.json: not valid JSON: it is not UTF-8 text (line 2, column 3)",
    }


def test_a_file_that_others_may_read_is_warned_of_and_refused_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", json.dumps(GOOD), 0o640)
    line = f"{path}: open to group or others (mode 0640); run: chmod 600 {path}"
    tenants = load({}, "--tenants-file", path)
    assert tenants is not None
    assert tenants.warnings == (line,)
    with pytest.raises(TenantsRefused) as refused:
        load({}, "--tenants-file", path, "--strict-permissions")
    assert str(refused.value) == line
    os.chmod(path, 0o600)
    tenants = load({}, "--tenants-file", path, "--strict-permissions")
    assert tenants is not None
    assert tenants.warnings == ()


# --- what is wrong with a tenant


def with_acme(**changes: Any) -> dict[str, Any]:
    return {"acme": {**ACME, **changes}}


URL = "an absolute http or https URL without user, password, query and fragment"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (
            {"Acme": ACME, "acme": ACME},
            ['client "acme": same id as "Acme" after normalisation'],
        ),
        (
            '{"a": {"embedded": true}, "a": {"embedded": true}}',
            ['client "a": same id as "a" after normalisation'],
        ),
        *(
            ({id: ACME}, [f'client "{shown}": not a usable id (a-z, 0-9, "-", "_", at most 64 characters)'])
            for id, shown in [
                ("", ""),
                ("*", "*"),
                ("$x", "$x"),
                ("-a", "-a"),
                ("a b", "a b"),
                ("a/..", "a/.."),
                ("\u212a", "\\u212a"),
                ("x" * 65, "x" * 64),
                ("a\x00b", "a\\u0000b"),
            ]
        ),
        ({"acme": 5}, ['client "acme": must be an object of settings']),
        ({"acme": {"apiKeyEnv": "K"}}, ['client "acme": apiBaseUrl is required']),
        (
            {"acme": {"apiBaseUrl": "http://h"}},
            ['client "acme": give exactly one of apiKeyEnv, apiKey, authorization'],
        ),
        (with_acme(apiKey="zrv_sk_1"), ['client "acme": give exactly one of apiKeyEnv, apiKey, authorization']),
        (
            with_acme(coreBaseUrl="http://h"),
            ['client "acme": coreBaseUrl is another name of apiBaseUrl; give one of them'],
        ),
        *(
            (with_acme(apiBaseUrl=url), [f'client "acme": apiBaseUrl must be {URL}'])
            for url in (
                *("ftp://h", "//h", "h:80", "https://", "https://u:p@h", "https://h?x=1", "https://h#x", "https://h:0"),
                *("https://h:99999", "https://h/a b", "https://h/é", 5, None, ""),
            )
        ),
        (with_acme(clientBaseUrl="x"), [f'client "acme": clientBaseUrl must be {URL}']),
        (with_acme(apiKeyEnv="zrv-sk-1"), ['client "acme": apiKeyEnv must be the name of an environment variable']),
        (with_acme(embedded="yes"), ['client "acme": embedded must be true or false']),
        (with_acme(enabled=1), ['client "acme": enabled must be true or false']),
        (with_acme(readOnly="true"), ['client "acme": readOnly must be true or false']),
        (with_acme(clientHeader="é"), ['client "acme": clientHeader must be visible ASCII']),
        (with_acme(clientHeader="a\r\nX: 1"), ['client "acme": clientHeader must be visible ASCII']),
        *(
            (with_acme(httpTimeoutMs=wrong), ['client "acme": httpTimeoutMs must be a whole number from 100 to 600000'])
            for wrong in (99, 600_001, 1.5, "1000", True, None)
        ),
        (with_acme(maxConcurrency=0), ['client "acme": maxConcurrency must be a whole number from 1 to 256']),
        (with_acme(callsPerMinute=0), ['client "acme": callsPerMinute must be a whole number from 1 to 100000']),
        (
            with_acme(name="x" * 81),
            ['client "acme": name must be a text of at most 80 characters without control characters'],
        ),
        (
            with_acme(description="a\x1b[2J"),
            ['client "acme": description must be a text of at most 300 characters without control characters'],
        ),
        (
            '{"a": {"embedded": true, "name": "\\ud800"}}',
            ['client "a": name must be a text of at most 80 characters without control characters'],
        ),
        (with_acme(toolsets="tax"), ['client "acme": toolsets must be a list of toolset names']),
        (with_acme(toolsets=["taxx"]), ['client "acme": unknown toolset "taxx"; did you mean "tax"?']),
        (with_acme(apiKeyenv="K"), ['client "acme": unknown field "apiKeyenv"; did you mean "apiKeyEnv"?']),
        (with_acme(api_key_env="K"), ['client "acme": unknown field "api_key_env"; did you mean "apiKeyEnv"?']),
        (with_acme(colour="K"), ['client "acme": unknown field "colour"']),
        (
            '{"a": {"embedded": true, "embedded": true}}',
            ['client "a": embedded is given twice'],
        ),
        (
            {"a": {"embedded": True, **ACME, "clientBaseUrl": "http://h"}},
            [f'client "a": embedded excludes {key}' for key in ("apiBaseUrl", "clientBaseUrl", "apiKeyEnv")],
        ),
        (
            {"a": {"embedded": True, "coreBaseUrl": "http://h", "authorization": "x", "apiKey": "x"}},
            [f'client "a": embedded excludes {key}' for key in ("coreBaseUrl", "authorization", "apiKey")],
        ),
        (
            {f"t{number}": ACME for number in range(501)},
            ["CLIENTS_CONFIG: has 501 clients; at most 500 are possible"],
        ),
        ({**GOOD, "$access": {}}, ["CLIENTS_CONFIG: access must be a list"]),
        ({**GOOD, "$access": None}, ["CLIENTS_CONFIG: access must be a list"]),
        (
            {**GOOD, "$access": [5, {"keysha256": KEY}]},
            [
                "access[0]: must be an object",
                'access[1]: unknown field "keysha256"; did you mean "keySha256"?',
                "access[1]: keySha256 is required",
                "access[1]: name is required",
                "access[1]: clients is required",
            ],
        ),
        (
            {**GOOD, "$access": [{"keySha256": "zrv_ak_1", "name": " ", "clients": [], "seat": "king"}]},
            [
                "access[0]: keySha256 must be 64 hexadecimal digits",
                "access[0]: name must be a text of 1 to 80 characters without control characters",
                "access[0]: seat must be one of none, read-only, read-write, admin",
                'access[0]: clients must be "*" or a list of client ids',
            ],
        ),
        (
            {**GOOD, "$access": [{"keySha256": KEY, "name": "d", "clients": ["acme", "ghost", "*"]}]},
            ['access[0]: unknown client "ghost"', 'access[0]: unknown client "*"'],
        ),
        (
            {**GOOD, "$access": [{"keySha256": KEY, "name": "d", "clients": "*"}] * 2},
            ["access[1]: same name as access[0]", "access[1]: same keySha256 as access[0]"],
        ),
    ],
)
def test_each_problem_is_told_in_its_words(value: Any, lines: list[str]) -> None:
    assert lines_of(value) == lines


def test_all_problems_are_told_at_once() -> None:
    value = {
        "A b": ACME,
        "one": {"apiKeyEnv": "K", "nmae": "x"},
        "two": {**ACME, "httpTimeoutMs": 1},
        "$access": [{"keySha256": KEY, "name": "d", "clients": ["three"]}],
    }
    assert lines_of(value) == [
        'client "A b": not a usable id (a-z, 0-9, "-", "_", at most 64 characters)',
        'client "one": unknown field "nmae"; did you mean "name"?',
        'client "one": apiBaseUrl is required',
        'client "two": httpTimeoutMs must be a whole number from 100 to 600000',
        'access[0]: unknown client "three"',
    ]


# --- secrets


def test_an_inline_key_is_warned_of_and_never_shown() -> None:
    tenants = load_text(
        {
            "a": {"apiBaseUrl": "http://h", "apiKey": "zrv_sk_planted1"},
            "b": {"apiBaseUrl": "http://h", "authorization": "Basic planted2"},
            "$access": [{"keySha256": KEY, "name": "d", "clients": "*"}],
        }
    )
    assert tenants.warnings == (
        'CLIENTS_CONFIG: client "a" has its apiKey in the source; name a variable in apiKeyEnv instead',
    )
    shown = repr(tenants) + str(tenants) + repr(list(tenants.tenants.values()))
    assert "planted" not in shown
    assert KEY not in shown


def test_a_misplaced_secret_is_not_repeated() -> None:
    told = lines_of(with_acme(apiKeyEnv="zrv_sk_planted=1", httpTimeoutMs="planted", apiBaseUrl="http://u:planted@h"))
    assert len(told) == 3
    assert "planted" not in "".join(told)


@pytest.mark.parametrize("prefix", ["zrv_sk_", "zrv_ak_"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(prefix: str) -> None:
    """It would pass for a name, and be told as one that is not set."""
    assert lines_of(with_acme(apiKeyEnv=f"{prefix}planted")) == [
        'client "acme": apiKeyEnv must be the name of an environment variable'
    ]


def test_a_variable_that_is_not_set_stops_nothing() -> None:
    acme = load_text({"acme": ACME}).tenants["acme"]
    assert (acme.is_configured({}), acme.is_configured({"ACME_KEY": " "})) == (False, False)
    assert acme.is_configured({"ACME_KEY": "k"})
    assert acme.key_of({"ACME_KEY": "k\n"}) == "k"


# --- properties

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(["apiBaseUrl", "apiKeyEnv", "embedded", "name", "toolsets", "readOnly", "nmae"])
TABLES = st.dictionaries(KEYS, JSON | st.sampled_from(["http://h", "KEY", True]), max_size=5)


@given(st.dictionaries(st.sampled_from(["acme", "b", "$access", "*", "Acme"]) | st.text(max_size=4), TABLES | JSON))
def test_any_document_loads_or_is_refused_in_lines(value: Any) -> None:
    made: dict[str, Tenant] = {}
    told = ["-"]
    try:
        made.update(load_text(value).tenants)
    except TenantsRefused as refused:
        told = str(refused).split("\n")
    assert all(line and line.isprintable() for line in told)
    assert all(normalise_id(id) == id == tenant.id for id, tenant in made.items())
    assert all(tenant.embedded or tenant.api_base_url for tenant in made.values())


@given(st.text(max_size=70))
def test_an_id_is_normalised_once_and_for_all(raw: str) -> None:
    id = normalise_id(raw)
    assert id is None or (normalise_id(id) == id and id.isascii() and len(id) <= 64)
