"""The doctor on sound and on broken set-ups: the report, the machine, the disk and the embedded backend."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.catalogue import ALL, DEFAULT
from tests.cli.conftest import Run
from tests.cli.doctor.lines import KEY, failing, one
from tests.places import ROOT
from zorivest_rpc.cli.checks import journal, machine
from zorivest_rpc.cli.checks.web import ask
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.serving.catalog.load import schemas_dir

# --- the whole


def test_a_fresh_set_up_has_nothing_to_mend_and_is_left_untouched(run: Run, home: Path) -> None:
    ran = run("doctor", "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["ok"], failing(ran)) == (0, True, {})
    assert {"python", "packages", "schemas", "options", "clock", "data", "disk", "backend", "key", "port"} <= {
        line["area"] for line in told["checks"]
    }
    assert list(home.iterdir()) == []


def test_the_report_for_people_fits_the_terminal_and_names_the_next_steps(run: Run, quick: None, data: Path) -> None:
    data.chmod(0o755)
    ran = run("doctor")
    assert ran.code == 1
    assert f"fail  data: {data} is open to others (mode 0755)" in " ".join(ran.out.split("\n      "))
    assert f"→ chmod 700 {data}" in ran.out
    assert [line for line in ran.out.splitlines() if len(line) > 80 and "/" not in line] == []
    assert "\x1b" not in ran.out


def test_every_line_that_is_not_well_has_a_next_step(run: Run, quick: None, data: Path, home: Path) -> None:
    (data / "bootstrap.json").write_text("{")
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("{")
    lines = json.loads(run("doctor", "--json").out)["checks"]
    assert [line for line in lines if line["status"] != "ok" and not line["next"]] == []
    assert [line for line in lines if line["status"] == "ok" and line["next"]] == []


def test_misuse_is_not_a_finding(run: Run) -> None:
    assert run("doctor", "--bogus").code == 2
    assert run("doctor", "--confirm", "maybe").code == 2
    assert "--start" in run("doctor", "--help").out


# --- the machine


def test_the_packages_are_those_of_the_distribution() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(machine.DEPENDENCIES.values()) == {re.split(r"[><=;\s]", each)[0] for each in wanted}


def shadow(directory: Path, *modules: str) -> dict[str, str]:
    """An environment in which these modules cannot be imported."""
    directory.mkdir()
    for name in modules:
        (directory / f"{name}.py").write_text("raise ImportError('gone')\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)])}


def test_a_missing_sqlcipher_is_told_as_what_it_means(tmp_path: Path) -> None:
    environ = shadow(tmp_path / "shadow", "sqlcipher3")
    new = list(machine.packages(False, environ))
    assert [line.status for line in new] == ["warn", "ok"]
    assert "NOT encrypted" in new[0].text
    assert machine._sqlcipher("ImportError", True).status == "fail"


def test_the_doctor_works_where_the_server_cannot_even_be_imported(tmp_path: Path, home: Path) -> None:
    environ = shadow(tmp_path / "shadow", "msgspec", "aiohttp")
    ran = subprocess.run(
        [sys.executable, "-m", "zorivest_rpc", "doctor"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 1
    for name in ("msgspec", "aiohttp"):
        assert f"{name} cannot be imported (ImportError)" in ran.stdout
        assert f"pip install --force-reinstall {name}" in " ".join(ran.stdout.split())
    assert ran.stderr == ""


def test_an_old_python_is_refused() -> None:
    assert machine.python((3, 10, 4)).status == "fail"
    assert machine.python((3, 11, 0)).status == "ok"


def test_a_clock_before_a_known_moment_is_wrong() -> None:
    line = machine.clock({"this journal was made": 1_000_000.0}, now=1_000_000.0 - 86_400)
    assert (line.status, "24.0 hours before this journal was made" in line.text) == ("fail", True)
    assert machine.clock({"this journal was made": 1_000_000.0}, now=1_000_000.0 - 60).status == "ok"


def test_a_port_that_another_program_holds_is_named_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.getsockname()[1]

        def hang_up_twice() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        rude = threading.Thread(target=hang_up_twice)
        rude.start()
        line = machine.port(number)
        rude.join()
    assert line.status == "warn"
    if sys.platform == "linux":
        assert f"pid {os.getpid()}" in line.text
    assert "free" in machine.port(number).text


# --- the disk


def test_a_broken_schema_file_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "schemas"
    shutil.copytree(schemas_dir(), copy)
    (copy / "tools" / "core" / "get_settings.json").write_text("{")
    lines = list(journal.schemas(str(copy)))
    assert {line.status for line in lines} == {"fail"}
    assert "get_settings.json" in lines[0].text


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("toolset-config.json", "{", "toolset-config.json"),
        ("toolset-config.json", '{"defaultToolsets": ["corre"]}', "corre"),
    ],
)
def test_a_wrong_toolset_configuration_is_named(
    run: Run, quick: None, data: Path, name: str, content: str, word: str
) -> None:
    (data / name).write_text(content)
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert word in failing(ran)["options"]["text"]


def test_a_wrong_variable_is_a_finding_and_the_rest_is_still_looked_at(
    run: Run, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_CONFIRM", "maybe")
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert "ZORIVEST_CONFIRM" in failing(ran)["options"]["text"]
    assert "port" in {line["area"] for line in json.loads(ran.out)["checks"]}


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("")
    assert one(journal.directory(str(file)), "data").status == "fail"
    assert "cannot be made" in one(journal.directory(str(file / "below")), "data").text


def test_keys_that_others_can_read_are_named_with_the_command_that_helps(data: Path) -> None:
    for name, mode in (("session.key", 0o644), ("serve.key", 0o640), ("api.key", 0o600)):
        (data / name).write_bytes(b"x" * 32)
        (data / name).chmod(mode)
    lines = list(journal.private_files(str(data)))
    assert [line.status for line in lines] == ["fail", "fail"]
    assert {line.next for line in lines} == {f"chmod 600 {data / 'session.key'}", f"chmod 600 {data / 'serve.key'}"}


def test_a_full_disk_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    for free, status in ((2**20, "fail"), (2**28, "warn"), (2**34, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(1, 1, free))
        assert one(journal.directory(str(tmp_path)), "disk").status == status


# --- the embedded backend


@contextmanager
def stopped_after(data: Path) -> Iterator[None]:
    try:
        yield
    finally:
        if located := find(data):
            os.kill(located.pid, signal.SIGTERM)
            psutil.Process(located.pid).wait(30)


def test_a_backend_is_started_on_request_and_examined_to_the_end(
    run: Run, quick: None, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_BACKEND_PORT", "0")
    with stopped_after(data):
        ran = run("doctor", "--start", "--json")
        areas = {line["area"]: line for line in json.loads(ran.out)["checks"]}
        assert ran.code == 0, failing(ran)
        assert "started" in areas["backend"]["text"]
        assert areas["unlock"]["text"].endswith("as admin")
        assert "encrypted" in areas["journal"]["text"]

        key = (data / "api.key").read_text().strip()
        located = find(data)
        assert located is not None
        opened = ask(located.address, "/auth/unlock", {"api_key": key})
        assert opened is not None
        token = opened.body["session_token"]
        ask(located.address, "/mcp-guard/lock", {"reason": "testing"}, token=token)
        locked = run("doctor", "--json")
        assert locked.code == 1
        assert "testing" in failing(locked)["guard"]["text"]
        assert "zorivest-rpc unlock" in failing(locked)["guard"]["next"]

        ask(located.address, "/mcp-guard/unlock", {}, token=token)
        ask(located.address, "/auth/lock", {}, token=token)
        run("doctor")
        still = ask(located.address, "/auth/status")
        assert still is not None
        assert still.body["locked"] is True  # looking does not unlock
    # It has ended; what can be told from the files alone:
    assert failing(run("doctor", "--json")) == {}
    monkeypatch.setenv("ZORIVEST_API_KEY", KEY)
    wrong = failing(run("doctor", "--json"))["key"]
    assert "is not one of this journal's" in wrong["text"]
    assert "Unset ZORIVEST_API_KEY" in wrong["next"]
    monkeypatch.delenv("ZORIVEST_API_KEY")
    (data / "api.key").rename(data / "lost.key")
    assert "none at hand" in failing(run("doctor", "--json"))["key"]["text"]
    (data / "lost.key").rename(data / "api.key")
    (data / "zorivest.db").write_bytes(b"SQLite format 3\x00" + bytes(100))
    assert "readable without a key" in failing(run("doctor", "--json"))["journal"]["text"]
    (data / "bootstrap.json").write_text('{"keys": ')
    assert "damaged" in failing(run("doctor", "--json"))["vault"]["text"]


def test_a_vault_tells_revoked_and_expired_keys_apart() -> None:
    key = {"lookup_sha256": "f", "created_at": "2026-01-01T00:00:00Z", "expires_at": None, "revoked": False}

    def standing(**changes: Any) -> str:
        return journal.Bootstrap({"cipher": "none", "keys": [{**key, **changes}]}).standing("f", time.time())

    assert standing() == "valid"
    assert standing(revoked=True) == "revoked"
    assert standing(expires_at="2020-01-01T00:00:00Z") == "expired"
    assert standing(lookup_sha256="g") == "unknown"


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (
            ("--toolsets", "all"),
            "warn",
            f"{ALL} tools are listed at start, and an unknown client works best with at most 40",
        ),
        (("--toolsets", "all", "--as", "cursor"), "warn", "Cursor works best with at most 40"),
        (("--as=cursor",), "ok", f"{DEFAULT} tools are listed at start for Cursor; its limit: 40"),
        (("--as", "claude-code"), "ok", f"{ALL} tools are listed at start for Claude Code; its limit: none known"),
    ],
)
@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_a_list_is_held_against_the_limit_of_the_client(
    run: Run, quick: None, words: tuple[str, ...], status: str, told: str
) -> None:
    checks = json.loads(run("doctor", "--json", *words).out)["checks"]
    (line,) = [line for line in checks if line["area"] == "list"]
    assert line["status"] == status
    assert told in line["text"]


def test_a_client_that_does_not_exist_is_misuse(run: Run, quick: None) -> None:
    done = run("doctor", "--as", "curser")
    assert done.code == 2
    assert "did you mean cursor?" in done.err
