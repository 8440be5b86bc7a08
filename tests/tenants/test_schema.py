"""The schema file and the loader agree, and both take the samples of the reference."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.docs.tenants import SAMPLES, SCHEMA
from tests.tenants.test_config import ACME, GOOD, KEY, load_text, with_acme
from zorivest_rpc.tenants.config import FIELDS
from zorivest_rpc.tenants.sources import TenantsRefused, parse_document

JUDGE = Draft202012Validator(json.loads(SCHEMA.read_text()))
WRONG: list[dict[str, Any]] = [
    {"keySha256": "x"},
    {"name": " "},
    {"name": 5},
    {"clients": []},
    {"clients": "acme"},
    {"clients": [1]},
    {"seat": "king"},
    {"role": "x"},
]
RULE = {"keySha256": KEY, "name": "d", "clients": "*"}


def is_taken(value: Any) -> bool:
    try:
        load_text(value)
    except TenantsRefused:
        return False
    return True


def test_the_schema_is_one_and_names_every_field() -> None:
    Draft202012Validator.check_schema(JUDGE.schema)
    assert list(JUDGE.schema["$defs"]["client"]["properties"]) == [field.key for field in FIELDS]


def test_the_two_samples_are_equal_and_sound() -> None:
    samples = [SAMPLES / "clients.toml", SAMPLES / "clients.json"]
    read = [parse_document(str(path), path.read_bytes()) for path in samples]
    assert (dict(read[0].clients), read[0].access) == (dict(read[1].clients), read[1].access)
    value = json.loads(samples[1].read_text())
    assert tomllib.loads(samples[0].read_text())["clients"].keys() == value.keys() - {"$access"}
    JUDGE.validate(value)
    assert is_taken(value)


@pytest.mark.parametrize(
    "value",
    [
        GOOD,
        {"a": {"embedded": True}},
        {"a": {"embedded": False, **ACME}},
        {" Acme ": ACME},
        {"a": {"coreBaseUrl": "http://h:8765/", "authorization": "Bearer x y"}},
        {"a": {"apiBaseUrl": "https://h/x/api/v1", "apiKey": "k", "clientHeader": "a b", "clientBaseUrl": "http://h"}},
        with_acme(name=None, description=None),
        with_acme(httpTimeoutMs=100, maxConcurrency=256, callsPerMinute=1, enabled=False, readOnly=True, toolsets=[]),
        {**GOOD, "$access": []},
        # refused by both
        [],
        {"a": 5},
        {"": ACME},
        {"*": ACME},
        {"$x": ACME},
        {"-a": ACME},
        {"a" * 65: ACME},
        {"a": {}},
        {"a": {"embedded": True, **ACME}},
        {"a": {"embedded": True, "authorization": "x"}},
        {"a": {"apiBaseUrl": "http://h"}},
        with_acme(apiKey="k"),
        with_acme(coreBaseUrl="http://h"),
        with_acme(unknown=1),
        *(
            with_acme(apiBaseUrl=url)
            for url in ("h", "ftp://h", "http://", "http://u@h", "http://h?x", "http://h#x", 5)
        ),
        with_acme(apiKeyEnv="a-b"),
        with_acme(apiKeyEnv="zrv_sk_a"),
        with_acme(embedded="no"),
        with_acme(clientHeader="é"),
        with_acme(clientHeader=" a"),
        with_acme(httpTimeoutMs=99),
        with_acme(httpTimeoutMs="100"),
        with_acme(httpTimeoutMs=True),
        with_acme(maxConcurrency=257),
        with_acme(callsPerMinute=0),
        with_acme(name="x" * 81),
        with_acme(name="a\nb"),
        with_acme(description="x" * 301),
        with_acme(toolsets="tax"),
        with_acme(toolsets=[1]),
        {**GOOD, "$access": {}},
        {**GOOD, "$access": [5]},
        *({**GOOD, "$access": [{key: value for key, value in RULE.items() if key != gone}]} for gone in RULE),
        *({**GOOD, "$access": [{**RULE, **changed}]} for changed in WRONG),
    ],
)
def test_the_schema_takes_what_the_loader_takes(value: Any) -> None:
    assert JUDGE.is_valid(value) == is_taken(value)
