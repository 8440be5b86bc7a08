"""A large import is confirmed like a trade, for the bytes of the file and not for its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from tests.serving.product.conftest import Client, Connect, refusal_of, text_of

FORM: dict[str, Any] = {"elicitation": {}}
YES = {"action": "accept", "content": {"confirm": True}}
NO = {"action": "decline"}


def export(count: int, price: int = 10) -> str:
    rows = [f"2026-03-02 10:{i // 60:02d}:{i % 60:02d},SYM{i % 9},Buy,{i + 1},{price}" for i in range(count)]
    return "\n".join(["Date,Symbol,Side,Qty,Price", *rows]) + "\n"


def write(path: Path, text: str) -> None:
    path.write_text(text)


def rename(path: Path, to: Path) -> Path:
    return path.rename(to)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trades.csv"
    write(path, export(26))
    return path


@pytest.fixture
def account() -> Iterator[str]:
    return iter([f"IMP-{uuid4().hex[:8]}"])


async def import_file(client: Client, path: Path, account: str, **more: Any) -> dict[str, Any]:
    return await client.call("import_broker_csv", file_path=str(path), account_id=account, **more)


async def count_trades(client: Client, account: str) -> int:
    page = (await client.call("list_trades", limit=500))["structuredContent"]
    assert page["total"] <= 500
    return sum(trade["account_id"] == account for trade in page["items"])


@pytest.fixture
async def gated(connect: Connect, tmp_path: Path) -> Client:
    """A client whose user we ask with a form."""
    client: Client = await connect("Cline", "--import-root", str(tmp_path), capabilities=FORM)
    return client


@pytest.mark.parametrize("agrees", [True, False])
async def test_more_than_25_trades_are_asked_about_once(gated: Client, file: Path, account: Any, agrees: bool) -> None:
    name = next(account)
    gated.answers = [YES if agrees else NO]
    result = await import_file(gated, file, name)
    (asked,) = gated.asked
    assert asked["params"]["message"].startswith(f"Import 26 trades from trades.csv into account {name} (SYM0, SYM1")
    assert asked["params"]["message"].endswith("and 3 more)?")
    if agrees:
        assert result["structuredContent"]["imported"] == 26
    else:
        assert refusal_of(result)["code"] == "confirmation_declined"
    assert await count_trades(gated, name) == (26 if agrees else 0)


async def test_25_trades_and_trades_that_are_held_need_no_question(gated: Client, file: Path, account: Any) -> None:
    name = next(account)
    write(file, export(25))
    assert (await import_file(gated, file, name))["structuredContent"]["imported"] == 25
    write(file, export(50))  # 25 of them are new
    assert (await import_file(gated, file, name))["structuredContent"]["imported"] == 25
    assert gated.asked == []


async def test_a_file_that_was_exchanged_while_the_user_read_is_asked_about_anew(
    gated: Client, file: Path, account: Any
) -> None:
    class Exchanging(list[dict[str, Any]]):
        def pop(self, index: Any = -1) -> dict[str, Any]:
            write(file, export(60, price=99))
            return super().pop(index)

    name = next(account)
    gated.answers = Exchanging([YES, NO])
    result = await import_file(gated, file, name)
    assert refusal_of(result)["code"] == "confirmation_declined"
    assert [re.findall(r"\d+", asked["params"]["message"])[0] for asked in gated.asked] == ["26", "60"]
    assert await count_trades(gated, name) == 0


async def test_in_the_modern_era_the_answer_is_bound_to_the_bytes_too(
    connect: Connect, tmp_path: Path, file: Path, account: Any
) -> None:
    client = await connect("Cline", "--import-root", str(tmp_path), capabilities=FORM, revision="2026-07-28")
    name = next(account)
    params = {"name": "import_broker_csv", "arguments": {"file_path": str(file), "account_id": name}}
    first = (await client.request("tools/call", params))["result"]
    assert first["resultType"] == "input_required"
    answer = {"inputResponses": dict.fromkeys(first["inputRequests"], YES), "requestState": first["requestState"]}
    write(file, export(26, price=99))
    again = (await client.request("tools/call", {**params, **answer}))["result"]
    assert again["resultType"] == "input_required"
    assert await count_trades(client, name) == 0
    write(file, export(26))
    done = (await client.request("tools/call", {**params, **answer}))["result"]
    assert done["structuredContent"]["imported"] == 26


async def test_without_forms_a_token_for_the_content_is_needed(
    connect: Connect, tmp_path: Path, file: Path, account: Any
) -> None:
    client = await connect("Roo Code", "--import-root", str(tmp_path))
    name = next(account)
    refused = await import_file(client, file, name)
    assert refusal_of(refused)["code"] == "confirmation_missing"
    bound = orjson.loads(re.findall(r"\{.*?\}", text_of(refused))[0])
    assert bound.keys() == {"account_id", "file_sha256"}

    token = {"action": "import_broker_csv", "params_summary": "26 trades"}
    unbound = await client.call("get_confirmation_token", **token)
    assert refusal_of(unbound)["code"] == "confirmation_unbound"
    unbound = await client.call("get_confirmation_token", **token, arguments={"account_id": name})
    assert refusal_of(unbound)["code"] == "confirmation_unbound"
    given = (await client.call("get_confirmation_token", **token, arguments=bound))["structuredContent"]["token"]

    write(file, export(26, price=99))
    other = await import_file(client, file, name, confirmation_token=given)
    assert refusal_of(other)["code"] == "confirmation_other_arguments"
    assert await count_trades(client, name) == 0
    write(file, export(26))
    renamed = rename(file, file.with_name("renamed.csv"))
    done = await import_file(client, renamed, name, confirmation_token=given)
    assert done["structuredContent"]["imported"] == 26


async def test_a_dry_run_shows_what_would_be_written_and_writes_nothing(
    gated: Client, file: Path, account: Any
) -> None:
    name = next(account)
    shown = (await import_file(gated, file, name, dry_run=True))["structuredContent"]
    assert (shown["dry_run"], shown["imported"], len(shown["file_sha256"])) == (True, 26, 64)
    assert gated.asked == []
    assert await count_trades(gated, name) == 0


async def test_a_client_that_asks_its_own_user_is_not_asked_again(
    connect: Connect, tmp_path: Path, file: Path, account: Any
) -> None:
    client = await connect("claude-code", "--import-root", str(tmp_path), capabilities=FORM)
    assert (await import_file(client, file, next(account)))["structuredContent"]["imported"] == 26
    assert client.asked == []


@pytest.mark.one_journal("the working directory may be read for the one journal alone")
async def test_a_server_started_in_the_home_directory_does_not_read_there(
    connect: Connect, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, account: Any
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    home = await connect("claude-code")
    assert refusal_of(await import_file(home, file, next(account)))["code"] == "file_outside_roots"
    (tmp_path / "exports").mkdir()
    monkeypatch.chdir(tmp_path / "exports")
    rename(file, tmp_path / "exports" / "trades.csv")
    below = await connect("claude-code")
    result = await import_file(below, tmp_path / "exports" / "trades.csv", "IMP-HOME")
    assert result["structuredContent"]["imported"] == 26
