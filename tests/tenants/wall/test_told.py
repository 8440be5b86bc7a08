"""What is told of a client: every question says whose it is, and nothing that is said holds a secret, also where
backends fail in all their ways and repeat what they were sent."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.serving.product.everything import own_example
from tests.tenants.wall.stage import LEGACY, Desk, access_rule, served, stage

IDS = ["acme", "sechpos"]
WRITE: dict[str, Any] = {"settings": {"ui.theme": "dark"}}


async def test_every_question_begins_with_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(monkeypatch, tmp_path, IDS) as place:
        client = await place.client(able={"elicitation": {}})
        gated = [spec for spec in place.journal.audience.specs.values() if spec.confirm]
        assert {"create_trade", "zorivest_emergency_stop", "sync_broker"} <= {spec.name for spec in gated}
        for number, spec in enumerate(gated):
            own, other = IDS[number % 2], IDS[1 - number % 2]
            client.asked.clear()
            result = await client.call(spec.name, clientId=own, **own_example(spec))
            (question,) = client.asked
            message = question["params"]["message"]
            assert message.startswith(f"For client Desk of {own}: "), spec.name
            assert other not in json.dumps(question), spec.name
            assert result["isError"] is True, spec.name
            assert result["_meta"]["com.zorivest/client"]["id"] == own, spec.name
        changed = [each for id in IDS for each in place.backends.seen[id] if each.method not in ("GET", "HEAD")]
        assert {each.path for each in changed} <= {"/auth/unlock", "/mcp-guard/check", "/confirmation-tokens"}


SECRETS = {
    "the key of a variable": "zrv_sk_acme",
    "a key in the file": "zrv_sk_inline",
    "a fixed header": "fixed-value-of-header",
    "a session token": "tok_acme_",
    "the header of a tenant": "header-acme",
    "the header of another": "header-inline",
    "an access key": "zrv_ak_planted",
    "a wrong access key": "zrv_ak_wrong",
}


async def test_no_secret_is_told_where_backends_fail_and_repeat_what_they_were_sent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    ids = ["acme", "inline", "fixed"]
    each: dict[str, Any] = {id: {"httpTimeoutMs": 300} for id in ids}
    rules = [access_rule(SECRETS["an access key"], "*", "desk")]
    monkeypatch.setattr("tests.tenants.wall.stage.config_of", _with_secrets(ids))
    async with served(
        monkeypatch, tmp_path, ids, "--log-level", "debug", "--log-file", str(tmp_path / "log"), access=rules, **each
    ) as place:
        backends, desk, told = place.backends, place.desk(SECRETS["an access key"]), []
        backends.repeats = True
        tenancy = place.journal.tenancy
        assert tenancy is not None
        told.append(repr((tenancy.tenants, tenancy.contexts.of("acme"))))
        for trouble in (backends.refused, backends.down, backends.redirects, backends.gone):
            trouble.update(ids)
            told += await ask_around(desk, ids)
            trouble.clear()
            told += await ask_around(desk, ids)
        backends.slow.update(dict.fromkeys(ids, 1.0))
        told += await ask_around(desk, ids)
        backends.slow.clear()
        wrong = place.desk(SECRETS["a wrong access key"])
        status, answer, headers = await wrong.post("tools/list", {}, MCP_Protocol_Version=LEGACY)
        assert status == 401
        told += [json.dumps(answer), str(headers), str(await desk.call("list_trades", {"clientId": "zrv_sk"}))]
        told.append(json.dumps(await desk.call("list_clients", {})))
        async with desk.http.get(
            place.url + "/metrics", headers={"Authorization": f"Bearer {SECRETS['an access key']}"}
        ) as metrics:
            assert metrics.status == 200
            told.append(await metrics.text())
        told += [str(record.__dict__) for record in caplog.records]
    out = capfd.readouterr()
    files = _texts_below(tmp_path)
    everything = "\n".join((*told, *files, out.out, out.err, caplog.text))
    assert "is out of order" in everything, "the failures were told"
    for what, secret in SECRETS.items():
        found = everything.find(secret)
        assert found < 0, f"{what}: {everything[max(0, found - 300) : found + 100]}"


async def ask_around(desk: Desk, ids: list[str]) -> list[str]:
    """Whatever is answered to reads and writes, for each of them."""
    told = []
    for id in ids:
        for tool, given in (("list_trades", {}), ("update_settings", WRITE), ("zorivest_diagnose", {"verbose": True})):
            told.append(json.dumps(await desk.call(tool, {"clientId": id, **given})))
        told.append(json.dumps(await desk.modern("resources/read", {"uri": f"zorivest://guard?clientId={id}"})))
    return told


def _texts_below(place: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in place.rglob("*") if path.is_file()]


def _with_secrets(ids: list[str]) -> Any:
    """One tenant has its key in a variable, one in the file, and one a fixed header."""
    from tests.tenants.wall import stage as module

    made = module.config_of

    def config(port: int, given: list[str], **each: dict[str, Any]) -> dict[str, Any]:
        found = made(port, given, **each)
        del found["inline"]["apiKeyEnv"], found["fixed"]["apiKeyEnv"]
        found["inline"]["apiKey"] = SECRETS["a key in the file"]
        found["fixed"]["authorization"] = "Basic " + SECRETS["a fixed header"]
        return found

    return config
