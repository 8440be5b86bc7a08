"""`--tenant ID` of the commands for people: whose journal is meant, with whose key, and what moving one out takes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import Run
from tests.cli.doctor.lines import answering
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.tenants.embedded import directory_of

FILE = """\
[clients.a]
embedded = true
[clients.b]
embedded = true
[clients.far]
apiBaseUrl = "{url}"
apiKeyEnv = "FAR_KEY"
[clients.fixed]
apiBaseUrl = "{url}"
authorization = "Basic planted"
"""
SERVER_KEY = "zrv_sk_" + "s" * 43


def end(directory: Path) -> None:
    located = find(directory)
    if located is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(located.pid)
            process.terminate()
            process.wait(20)


@pytest.fixture
def data(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two embedded clients and two remote ones, and a key of the server that is none of theirs."""
    data = home / "data"
    path = home / "clients.toml"
    path.write_text(FILE.format(url="http://127.0.0.1:9"))
    path.chmod(0o600)
    monkeypatch.setenv("ZORIVEST_DATA_DIR", str(data))
    monkeypatch.setenv("ZORIVEST_TENANTS_FILE", str(path))
    monkeypatch.setenv("ZORIVEST_API_KEY", SERVER_KEY)
    yield data
    for id in ("a", "b", "c"):
        end(directory_of(data, id))
    end(data)
    end(home / "elsewhere")


def test_each_command_is_about_the_journal_of_that_client(
    run: Run, data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One walk, because a journal takes a second to make."""
    assert run("demo", "load", "--tenant", "A").out.startswith("loaded")
    told = {id: json.loads(run("keys", "list", "--tenant", id, "--json").out) for id in ("a", "b")}
    assert [len(keys) for keys in told.values()] == [1, 1]
    assert told["a"][0]["key_id"] != told["b"][0]["key_id"]
    stored = [(directory_of(data, id) / "api.key").read_text().strip() for id in ("a", "b")]
    assert len({*stored, SERVER_KEY}) == 3
    assert stat.S_IMODE((data / "tenants").stat().st_mode) == 0o700

    ran = run("stop", "--tenant", "a", "--json")
    assert json.loads(ran.out)["is_locked"] is True
    assert "nothing to unlock" in run("unlock", "--tenant", "b").out
    assert "locked by a person" in run("unlock", "--tenant", "a").err
    assert run("demo", "remove", "--tenant", "b").out.startswith("nothing to remove")
    assert len(run("approve", "--tenant", "a").out.splitlines()) > 1
    assert run("approve", "--tenant", "b").out == "There are no policies.\n"
    assert "mail" in run("connect", "--tenant", "b").out

    made = json.loads(run("backup", "create", "--tenant", "a", "--json").out)
    assert made["name"] in run("backup", "list", "--tenant", "a").out
    assert run("backup", "list", "--tenant", "b").out == "no backups yet\n"
    lines = {
        (line["area"], line["status"]) for line in json.loads(run("doctor", "--tenant", "a", "--json").out)["checks"]
    }
    assert ("guard", "fail") in lines
    assert not (data / "bootstrap.json").exists()
    check_moving_out(run, home, data, monkeypatch)


def check_moving_out(run: Run, home: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup and a key are all that it takes: as a journal of its own, and as a client of another server."""
    key = json.loads(run("keys", "create", "--tenant", "a", "--label", "moved", "--role", "admin", "--json").out)
    made = json.loads(run("backup", "create", "--tenant", "a", "--json").out)["name"]
    for place in (home / "elsewhere", directory_of(data, "c")):
        (place / "backups").mkdir(parents=True)
        shutil.copytree(directory_of(data, "a") / "backups" / made, place / "backups" / made)
    monkeypatch.setenv("ZORIVEST_API_KEY", key["raw_key"])
    there = ("--data-dir", str(home / "elsewhere"))
    assert run("backup", "restore", made, *there).out.startswith(f"restored {made}")
    assert run("demo", "load", *there).out.startswith("already loaded")

    file = Path(os.environ["ZORIVEST_TENANTS_FILE"])
    file.write_text(file.read_text() + "[clients.c]\nembedded = true\n")
    assert run("backup", "restore", made, "--tenant", "c").out.startswith(f"restored {made}")
    monkeypatch.setenv("ZORIVEST_API_KEY", SERVER_KEY)
    assert run("demo", "load", "--tenant", "c").out.startswith("already loaded")
    assert (directory_of(data, "c") / "api.key").read_text().strip() == key["raw_key"]


def test_a_journal_whose_client_was_taken_out_can_still_be_backed_up(run: Run, data: Path) -> None:
    assert run("keys", "list", "--tenant", "b").code == 0
    file = Path(os.environ["ZORIVEST_TENANTS_FILE"])
    file.write_text("[clients.a]\nembedded = true\n")
    assert run("backup", "create", "--tenant", "b").code == 0
    ran = run("backup", "list", "--tenant", "ghost")
    assert (ran.code, ran.err) == (1, 'zorivest-rpc backup: unknown client "ghost"; there are a\n')
    ran = run("backup", "list", "--tenant", "../b")
    assert (ran.code, ran.err) == (1, 'zorivest-rpc backup: unknown client "../b"; there are a\n')


@pytest.mark.parametrize("words", [("keys", "list"), ("backup", "list"), ("demo", "load"), ("approve",), ("connect",)])
def test_what_is_for_embedded_journals_refuses_a_remote_one(run: Run, data: Path, words: tuple[str, ...]) -> None:
    ran = run(*words, "--tenant", "far")
    assert (ran.code, ran.out) == (1, "")
    assert 'client "far" has its backend at http://127.0.0.1:9/api/v1; this command is for an embedded one' in ran.err


def test_a_wrong_tenants_file_is_misuse(run: Run, data: Path) -> None:
    Path(os.environ["ZORIVEST_TENANTS_FILE"]).write_text("[clients.a]\n")
    for words in (("keys", "list"), ("backup", "list"), ("demo", "load"), ("approve",), ("stop",), ("unlock",)):
        ran = run(*words, "--tenant", "a")
        assert (ran.code, ran.err.splitlines()[0]) == (2, 'client "a": apiBaseUrl is required')


def test_the_brake_of_a_remote_client_is_its_own(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "/api/v1/auth/unlock": (200, {"session_token": "t"}),
        "/api/v1/mcp-guard/lock": (200, {"is_locked": True, "locked_by": "person", "is_saved": True}),
    }
    monkeypatch.setenv("FAR_KEY", "zrv_sk_of_far")
    with answering(answers) as (url, asked):
        Path(os.environ["ZORIVEST_TENANTS_FILE"]).write_text(FILE.format(url=url))
        for id in ("far", "fixed"):
            ran = run("stop", "--tenant", id)
            assert (ran.code, "Stopped" in ran.out) == (0, True)
            assert "planted" not in ran.out + ran.err
    assert [line.partition(" ")[0] for line in asked] == [
        "/api/v1/auth/unlock",
        "/api/v1/mcp-guard/lock",
        "/api/v1/mcp-guard/lock",
    ]
    assert SERVER_KEY not in str(asked)
    assert "zrv_sk_of_far" in asked[0]
    monkeypatch.delenv("FAR_KEY")
    ran = run("stop", "--tenant", "far")
    assert (ran.code, ran.err) == (1, "zorivest-rpc stop: no key at hand; set FAR_KEY\n")


def test_the_doctor_tells_of_every_client(run: Run, data: Path) -> None:
    (directory_of(data, "old")).mkdir(parents=True)
    (directory_of(data, "old") / "bootstrap.json").write_text("{}")
    ran = run("doctor", "--json")
    told = [line["text"] for line in json.loads(ran.out)["checks"] if line["area"] == "tenants"]
    assert told[0].endswith("clients.toml: 4 clients, 0 access keys")
    assert told[1].startswith("there are no access keys")
    assert told[2:] == [
        '"a": embedded; its first call makes the journal',
        '"b": embedded; its first call makes the journal',
        '"far" cannot be used: its key is not in FAR_KEY',
        "what the schedules of embedded clients have due while they sleep is done by serve alone, not over stdio",
        f"{directory_of(data, 'old')} is the journal of a client that is not configured",
    ]
    assert "planted" not in ran.out + ran.err
    ran = run("doctor", "--tenant", "ghost")
    assert (ran.code, ran.err) == (
        2,
        'zorivest-rpc: --tenant: unknown client "ghost"; there are a, b, far, fixed\n',
    )


# --- what a client's list costs, and a call for it


def test_lists_and_their_cost_are_those_of_the_client(run: Run, data: Path) -> None:
    file = Path(os.environ["ZORIVEST_TENANTS_FILE"])
    file.write_text('[clients.a]\nembedded = true\n[clients.b]\nembedded = true\ntoolsets = ["tax"]\nreadOnly = true\n')
    names = {
        words: {tool["name"] for tool in json.loads(run("tools", "list", "--json", "--toolsets", "all", *words).out)}
        for words in ((), ("--tenant", "a"), ("--tenant", "B"))
    }
    assert names[()] == names[("--tenant", "a")]
    assert "list_clients" in names[()]
    assert "create_trade" not in names[("--tenant", "B")]
    assert "estimate_tax" in names[("--tenant", "B")] or names[("--tenant", "B")] < names[()]
    costs = [json.loads(run("budget", "--json", *words).out)[0]["bytes"] for words in ((), ("--tenant", "b"))]
    assert costs[0] > costs[1]
    toolsets = json.loads(run("toolsets", "list", "--json", "--tenant", "b").out)
    assert {each["name"] for each in toolsets if each["tools"]} == {"core", "discovery", "tax"}
    said = run("tools", "why", "create_trade", "--tenant", "b").out
    assert "create_trade is not listed and cannot be called." in said


def test_a_call_at_the_terminal_is_for_the_client_that_is_named(run: Run, data: Path) -> None:
    ran = run("tools", "call", "list_trades", "--tenant", "A", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["_meta"]["com.zorivest/client"]["id"] == "a"
    assert json.loads(run("tools", "call", "list_trades", "clientId=a").out)["total"] == 0
    ran = run("tools", "call", "list_trades")
    assert (ran.code, ran.out) == (
        1,
        "clientId is required. Available clients: a, b, far, fixed. Use list_clients for details.\n",
    )
    assert [client["id"] for client in json.loads(run("tools", "call", "list_clients").out)["clients"]] == [
        "a",
        "b",
        "far",
        "fixed",
    ]
    assert run("tools", "call", "list_trades", "--tenant", "ghost") == (
        2,
        "",
        'zorivest-rpc: --tenant: unknown client "ghost"; there are a, b, far, fixed\n',
    )


def test_a_tenant_where_there_are_none_is_misuse(run: Run, home: Path) -> None:
    for words in (("tools", "list"), ("tools", "call", "list_trades"), ("budget",), ("toolsets", "list")):
        ran = run(*words, "--tenant", "a")
        assert (ran.code, ran.out) == (2, "")
        assert "--tenant: no clients are named" in ran.err
