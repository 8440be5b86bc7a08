"""A long import tells the client how far it has come."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.product.conftest import Connect
from zorivest_rpc.serving.tools import rest


async def test_progress_of_a_long_import_reaches_the_client(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "_GLANCE", 0.02)  # ten times as often, so a file of a tenth of the length is long
    rows = [f"2026-03-02 10:{n // 60 % 60:02}:{n % 60:02},BUY,T{n:05},1,{10 + n % 7}.00,0.00" for n in range(1_500)]
    file = tmp_path / "many.csv"
    file.write_text("Date,Action,Symbol,Quantity,Price,Commission\n" + "\n".join(rows) + "\n")
    client = await connect("claude-code", "--import-root", str(tmp_path))
    arguments = {"file_path": str(file), "account_id": "PROGRESS"}
    params = {"name": "import_broker_csv", "arguments": arguments, "_meta": {"progressToken": "import"}}
    answer = await client.request("tools/call", params)
    assert not answer["result"].get("isError"), answer["result"]["content"]
    steps = [each["params"] for each in client.notifications if each["method"] == "notifications/progress"]
    assert steps, "the import ended before anybody could look"
    assert all(step["progressToken"] == "import" and step["total"] >= step["progress"] for step in steps)
    done = [step["progress"] for step in steps]
    assert done == sorted(set(done))
