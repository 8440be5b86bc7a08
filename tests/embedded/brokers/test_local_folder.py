"""The imports folder as a broker: new files once, bad files every time, links never."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.embedded.brokers.conftest import trades_of
from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.brokers import local_folder

WEBULL = """Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee
03/09/2026,10:30:00,AAPL,Buy,100,188.50,18850.00,0.00,0.02
03/09/2026,11:30:00,AAPL,Sell,40,190.00,7600.00,0.00,0.25
"""


def put(folder: Path, name: str, text: str = WEBULL) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_an_empty_folder_is_a_sync_of_nothing(owner: Caller) -> None:
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"], found["errors"]) == ("success", 0, [])
    listed = next(row for row in await owner.get("/brokers") if row["broker_id"] == "local_folder")
    assert (listed["configured"], listed["environment"], listed["last_sync"]) == (True, "local", found["last_sync"])


async def test_new_files_are_imported_once_into_the_account_of_their_folder(owner: Caller, folder: Path) -> None:
    put(folder, "WB-1/march.csv")
    put(folder, "WB-2/2026/03/march.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"], len(found["batches"])) == ("success", 4, 2)
    trades = await trades_of(owner)
    assert sorted({(trade["account_id"], trade["source"], trade["broker"]) for trade in trades}) == [
        ("WB-1", "sync", "webull"),
        ("WB-2", "sync", "webull"),
    ]
    again = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (again["imported"], again["duplicates_skipped"], again["batches"]) == (0, 0, [])
    put(folder, "WB-1/april.csv", WEBULL + "04/01/2026,10:00:00,MSFT,Buy,5,400.00,2000.00,0.00,0.00\n")
    third = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (third["imported"], third["duplicates_skipped"]) == (1, 2)


async def test_what_is_held_open_shows_as_positions(owner: Caller, folder: Path) -> None:
    put(folder, "WB-1/march.csv")
    await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (await owner.get("/brokers/local_folder/positions"))["items"] == [
        {"symbol": "AAPL", "quantity": 60, "avg_price": 188.5, "account_id": "WB-1"}
    ]


async def test_a_file_that_cannot_be_read_is_told_every_time_and_the_others_are_kept(
    owner: Caller, folder: Path
) -> None:
    put(folder, "WB-1/good.csv")
    put(folder, "WB-1/empty.csv", "")
    put(folder, "WB-1/bank.ofx", "OFXHEADER:100")
    put(folder, "WB-1/notes.csv", "dear,diary\n1,2\n")
    for imported in (2, 0):
        found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
        assert (found["imported"], len(found["errors"])) == (imported, 3)
        assert [error.split(":")[0] for error in found["errors"]] == [
            "WB-1/bank.ofx",
            "WB-1/empty.csv",
            "WB-1/notes.csv",
        ]
        assert found["status"] == ("partial" if imported else "failed")
    assert "no <OFX> element" in found["errors"][0]


async def test_links_hidden_files_and_files_outside_accounts_are_left(
    owner: Caller, folder: Path, tmp_path: Path
) -> None:
    outside = put(tmp_path, "outside/secret.csv")
    (folder / "WB-1").mkdir()
    (folder / "WB-1" / "link.csv").symlink_to(outside)
    (folder / "WB-1" / "dir").symlink_to(outside.parent)
    (folder / "WB-2").symlink_to(outside.parent)
    put(folder, "WB-1/.hidden.csv")
    put(folder, "WB-1/.dir/x.csv")
    put(folder, "loose.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["imported"], found["errors"]) == (0, [])


async def test_the_systems_own_account_is_not_written_to(owner: Caller, folder: Path) -> None:
    put(folder, "SYSTEM_DEFAULT/march.csv")
    put(folder, "WB-1/march.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"], len(found["errors"])) == ("partial", 2, 1)
    assert {trade["account_id"] for trade in await trades_of(owner)} == {"WB-1"}


async def test_an_unknown_account_is_not_created_when_that_is_switched_off(owner: Caller, folder: Path) -> None:
    await owner.expect(200, "PUT", "/settings", {"accounts.auto_create": False})
    put(folder, "WB-1/march.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"]) == ("failed", 0)
    assert "auto_create" in found["errors"][0]


async def test_times_are_read_in_the_zone_of_the_settings(owner: Caller, folder: Path) -> None:
    await owner.expect(200, "PUT", "/settings", {"import.timezone": "Europe/Berlin"})
    put(folder, "WB-1/march.csv")
    await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (await trades_of(owner))[0]["time"] == "2026-03-09T09:30:00+00:00"


async def test_a_corrected_fee_replaces_the_old_one(owner: Caller, folder: Path) -> None:
    put(folder, "WB-1/first.csv")
    await owner.expect(200, "POST", "/brokers/local_folder/sync")
    put(folder, "WB-1/second.csv", WEBULL.replace("0.25", "0.75"))
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["imported"], found["duplicates_skipped"]) == (0, 2)
    assert [trade["fees"] for trade in await trades_of(owner)] == [0.02, 0.75]


@pytest.mark.parametrize("size", [0, 1, 10, 57, 58, 100])
async def test_a_file_cut_short_leaves_whole_trades_or_none(size: int, owner: Caller, folder: Path) -> None:
    put(folder, "WB-1/cut.csv", WEBULL[: len(WEBULL) - size])
    await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert {trade["quantity"] for trade in await trades_of(owner)} <= {100, 40}


async def test_statements_of_banks_go_to_the_ledger_of_their_account(owner: Caller, folder: Path) -> None:
    put(folder, "CHK-1/march.csv", "Date,Description,Amount\n2026-03-09,Coffee,-3.50\n2026-03-10,Pay,100.00\n")
    put(folder, "CHK-1/april.qif", "!Type:Bank\nD04/01/2026\nT-12.00\nPRent\n^\n")
    put(folder, "WB-1/march.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"], found["errors"]) == ("success", 5, [])
    (bank,) = await owner.get("/banking/accounts")
    assert (bank["account_id"], bank["transaction_count"]) == ("CHK-1", 3)
    again = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (again["imported"], again["batches"]) == (0, [])


async def test_a_sparse_gigabyte_and_a_pipe_are_told_and_the_others_are_kept(owner: Caller, folder: Path) -> None:
    put(folder, "WB-1/march.csv")
    with (folder / "WB-1" / "huge.csv").open("wb") as huge:
        huge.truncate(2**30)
    os.mkfifo(folder / "WB-1" / "pipe.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"]) == ("partial", 2)
    assert sorted(error.split(":")[0] for error in found["errors"]) == ["WB-1/huge.csv", "WB-1/pipe.csv"]
    assert await owner.expect(200, "POST", "/brokers/local_folder/sync")


async def test_known_files_do_not_stand_in_the_way_of_new_ones(
    owner: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_folder, "MOST_FILES", 2)
    for number in range(5):
        put(folder, f"WB-1/{number}.csv", WEBULL.replace("AAPL", f"SYM{number}"))
    for imported in (4, 4, 2):
        found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
        assert found["imported"] == imported
    assert (found["status"], len(await trades_of(owner))) == ("success", 10)


async def test_a_file_that_takes_too_long_is_told(owner: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_folder, "SECONDS", -1.0)
    put(folder, "WB-1/march.csv")
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["status"], found["imported"]) == ("failed", 0)
    assert "longer than allowed" in found["errors"][0]
