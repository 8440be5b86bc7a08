"""What the doctor never says: keys, tokens and passwords, wherever it meets them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.doctor.lines import HEALTHY, answering, cursor, failing
from zorivest_rpc.cli.checks.web import render_url
from zorivest_rpc.clients.places import locate

# --- secrets


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_planted_secrets_are_never_said(
    run: Run, quick: None, data: Path, home: Path, monkeypatch: pytest.MonkeyPatch, form: list[str]
) -> None:
    planted = {name: f"zrv_sk_planted{name}{'x' * 20}" for name in ("env", "stored", "entry")}
    planted |= {
        name: f"planted-{name}-0123456789" for name in ("serve", "header", "user", "config", "variable", "args")
    }
    for name, secret in (("api.key", planted["stored"]), ("serve.key", planted["serve"])):
        (data / name).write_text(secret + "\n")
        (data / name).chmod(0o644)
    (data / "bootstrap.json").write_text(json.dumps({"cipher": "none", "keys": []}))
    monkeypatch.setenv("ZORIVEST_API_KEY", planted["env"])
    variables = {"ZORIVEST_API_KEY": planted["entry"], "OTHER": planted["variable"]}
    cursor(home, {"command": "/gone/zorivest-rpc", "args": [planted["args"]], "env": variables})
    windsurf = Path(locate("windsurf", os.environ))
    windsurf.parent.mkdir(parents=True)
    url = f"http://{planted['user']}:pw@127.0.0.1:1/mcp?key={planted['config']}"
    headers = {"Authorization": f"Bearer {planted['header']}"}
    windsurf.write_text(json.dumps({"mcpServers": {"zorivest": {"serverUrl": url, "headers": headers}}}))
    zed = Path(locate("zed", os.environ))
    zed.parent.mkdir(parents=True)
    zed.write_text(f'{{"context_servers": {{"zorivest": {{"env": {{"K": "{planted["config"]}" "x"')
    said = ""
    for words in ([], ["--api-url", f"http://{planted['user']}:pw@localhost:1"], ["--toolsets", planted["env"]]):
        ran = run("doctor", *words, *form)
        assert ran.code == 1
        said += ran.out + ran.err
    assert [name for name, secret in planted.items() if secret in said] == []


def test_a_secret_that_only_another_program_knows_is_not_repeated(
    run: Run, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_API_KEY", "a-key-of-another-form")
    reason = "zrv_sk_foreign Bearer abcdef http://me:pw@host a-key-of-another-form"
    with answering({**HEALTHY, "/api/v1/mcp-guard/status": (200, {"is_locked": True, "lock_reason": reason[:60]})}) as (
        url,
        _,
    ):
        ran = run("doctor", "--api-url", url, "--json")
    assert failing(ran)["guard"]["text"].startswith("locked (… Bearer … http://…@host ")
    assert "a-key-of-another-form" not in ran.out


def test_a_url_is_shown_without_what_may_be_secret_in_it() -> None:
    assert render_url("http://me:pw@host:1/mcp?token=x#y") == "http://host:1/mcp"
    assert render_url("http://[") == "the URL"
