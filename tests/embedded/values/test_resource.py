"""A resource's fields are read in the same way when it is made and when it is changed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from zorivest_rpc.embedded.errors import Invalid
from zorivest_rpc.embedded.rest.routes.accounts import ACCOUNT
from zorivest_rpc.embedded.rest.routes.journal import REPORT
from zorivest_rpc.embedded.rest.routes.plans import PLAN
from zorivest_rpc.embedded.rest.routes.trades import TRADE
from zorivest_rpc.embedded.values.fields import MISSING, Fields
from zorivest_rpc.embedded.values.resource import Resource

PLAN_BODY = {
    "ticker": " nvda ",
    "direction": "short",
    "conviction": "HIGH",
    "strategy_name": " fade ",
    "strategy_description": "gap",
    "entry_price": "10.5",
    "stop_loss": 11,
    "target_price": 8,
    "entry_conditions": ["one", "two"],
    "exit_conditions": "three",
    "timeframe": "daily",
    "account_id": " IRA ",
    "shares_planned": "3.5",
    "position_size": 0,
}
PLAN_VALUES = PLAN_BODY | {
    "ticker": "NVDA",
    "direction": "SLD",
    "conviction": "high",
    "strategy_name": "fade",
    "entry_price": Decimal("10.5"),
    "entry_conditions": "one\ntwo",
    "account_id": "IRA",
    "shares_planned": Decimal("3.5"),
}
ACCOUNT_BODY = {
    "name": "Mine",
    "account_type": "ira",
    "institution": "Bank",
    "currency": "eur",
    "is_tax_advantaged": True,
    "is_spousal": "no",
    "notes": "",
    "broker_id": "ibkr",
}
REPORT_BODY = {
    "setup_quality": "b",
    "execution_quality": 5,
    "followed_plan": False,
    "emotional_state": " Calm ",
    "lessons_learned": "wait",
    "tags": [" a", "b", "a "],
}
TRADE_BODY = {
    "time": "2026-03-02T09:30:00-05:00",
    "action": "sld",
    "quantity": "2.5",
    "price": -37.63,
    "account_id": "U1",
    "commission": 1,
    "fees": "0.02",
    "realized_pnl": -5,
    "notes": "x",
    "currency": " jpy",
    "fx_rate": "0.0067",
}
WHOLE: dict[str, tuple[Resource, dict[str, Any], dict[str, Any]]] = {
    "plan": (PLAN, PLAN_BODY, PLAN_VALUES),
    "account": (ACCOUNT, ACCOUNT_BODY, ACCOUNT_BODY | {"account_type": "ira", "currency": "EUR", "is_spousal": False}),
    "report": (
        REPORT,
        REPORT_BODY,
        REPORT_BODY | {"setup_quality": 4, "emotional_state": "calm", "tags": ["a", "b"]},
    ),
    "trade": (
        TRADE,
        TRADE_BODY,
        TRADE_BODY
        | {
            "time": datetime(2026, 3, 2, 14, 30, tzinfo=UTC),
            "action": "SLD",
            "quantity": Decimal("2.5"),
            "price": Decimal("-37.63"),
            "fees": Decimal("0.02"),
            "currency": "JPY",
            "fx_rate": Decimal("0.0067"),
        },
    ),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "plan": {
        "conviction": "medium",
        "strategy_description": "",
        "entry_conditions": "",
        "exit_conditions": "",
        "timeframe": "intraday",
        "account_id": None,
        "shares_planned": None,
        "position_size": None,
    },
    "account": dict.fromkeys(
        ("institution", "currency", "is_tax_advantaged", "is_spousal", "notes", "broker_id"), None
    ),
    "report": {"emotional_state": "neutral", "lessons_learned": "", "tags": []},
    "trade": {"commission": 0, "fees": 0, "realized_pnl": 0, "notes": "", "currency": None, "fx_rate": None},
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_same_body_means_the_same_whole_and_as_a_patch(name: str) -> None:
    resource, body, values = WHOLE[name]
    whole, patch = Fields(body), Fields(body)
    assert resource.read(whole) == resource.read_changes(patch) == values
    assert (whole.errors, patch.errors) == ({}, {})


@pytest.mark.parametrize("name", WHOLE)
def test_a_new_one_has_the_defaults_and_a_patch_has_none_of_them(name: str) -> None:
    resource, body, _ = WHOLE[name]
    required = {field.name: body[field.name] for field in resource.fields if field.default is MISSING}
    fields = Fields(required)
    read = resource.read(fields)
    fields.done()
    assert {key: read[key] for key in DEFAULTS[name]} == DEFAULTS[name]
    assert set(read) - set(DEFAULTS[name]) - set(required) <= {"time"}
    assert resource.read_changes(Fields({})) == {}
    assert resource.read_changes(Fields(dict.fromkeys(body))) == {}, "null is absent"


@pytest.mark.parametrize("name", WHOLE)
def test_every_wrong_field_is_named_at_once_whole_and_as_a_patch(name: str) -> None:
    resource, body, _ = WHOLE[name]
    wrong: dict[str, Any] = {key: {"an": "object"} for key in body}
    for read in (resource.read, resource.read_changes):
        fields = Fields(wrong)
        read(fields)
        with pytest.raises(Invalid):
            fields.done()
        assert set(fields.errors) == set(body)
    missing = Fields({})
    resource.read(missing)
    assert set(missing.errors) == {field.name for field in resource.fields if field.default is MISSING}


def test_a_trade_without_a_time_is_of_now() -> None:
    before = datetime.now(UTC)
    read = TRADE.read(Fields({key: value for key, value in TRADE_BODY.items() if key != "time"}))
    assert before <= read["time"] <= datetime.now(UTC)
