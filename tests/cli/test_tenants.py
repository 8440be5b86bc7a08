"""`zorivest-rpc tenants`: what it prints, for people and for programs, what it writes, and its exit codes."""

from __future__ import annotations

import gzip
import json
import re
import stat
import subprocess
import sys
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.places import ROOT
from zorivest_rpc.tenants.sources import compress, read_variable

TOML = """\
# our clients
[clients.acme]   # the first
apiBaseUrl = "https://acme.example.com/api/v1"
apiKeyEnv = "ACME_KEY"
name = "Acme Capital"

[clients.sechpos]
embedded = true
readOnly = true

# keys
[[access]]
keySha256 = "0000000000000000000000000000000000000000000000000000000000000000"
name = "desk-1"
clients = ["acme"]   # only this
"""
JSON = """\
{
    "acme": {"apiBaseUrl": "https://acme.example.com", "apiKeyEnv": "ACME_KEY"},
    "sechpos": {"embedded": true}
}
"""
KEY = re.compile(r"zrv_ak_[A-Za-z0-9_-]{43}")


@pytest.fixture
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "clients.toml"
    path.write_text(TOML)
    path.chmod(0o600)
    monkeypatch.setenv("ZORIVEST_TENANTS_FILE", str(path))
    monkeypatch.delenv("ACME_KEY", raising=False)
    return path


@pytest.fixture
def as_json(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = home / "clients.json"
    path.write_text(JSON)
    path.chmod(0o600)
    monkeypatch.setenv("ZORIVEST_TENANTS_FILE", str(path))
    return path


# --- check


def test_check_says_who_there_is_and_what_is_missing(run: Run, file: Path) -> None:
    golden = f"""\
{file}: 2 clients, 1 access key
acme     https://acme.example.com/api/v1  key ACME_KEY: NOT SET         Acme Capital
sechpos  embedded                         journal: made by its first call  read-only
key desk-1  opens acme  seat read-only
"""
    ran = run("tenants", "check")
    assert (ran.code, ran.err) == (0, "")
    assert re.sub(" +", " ", ran.out) == re.sub(" +", " ", golden)


def test_check_for_programs(run: Run, file: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "zrv_sk_planted")
    old = home / ".local" / "share" / "zorivest" / "tenants" / "old"
    old.mkdir(parents=True)
    (old / "bootstrap.json").write_text("{}")
    ran = run("tenants", "check", "--json")
    assert ran.code == 0
    told = json.loads(ran.out)
    assert [(each["id"], each["address"], each["credential_set"]) for each in told["clients"]] == [
        ("acme", "https://acme.example.com/api/v1", True),
        ("sechpos", None, True),
    ]
    assert told["access"] == [{"name": "desk-1", "clients": ["acme"], "seat": "read-only"}]
    assert told["warnings"] == [f"{old}: no client is configured for this journal; it stays as it is"]
    assert "planted" not in ran.out + ran.err
    assert "0000000000" not in ran.out


def test_check_tells_every_problem_and_ends_with_2(run: Run, file: Path) -> None:
    file.write_text('[clients.acme]\napiKeyEnv = "K"\n[clients."a b"]\nembedded = true\n')
    lines = [
        'client "acme": apiBaseUrl is required',
        'client "a b": not a usable id (a-z, 0-9, "-", "_", at most 64 characters)',
    ]
    assert run("tenants", "check") == (2, "", "\n".join(lines) + "\n")
    ran = run("tenants", "check", "--json")
    assert (ran.code, json.loads(ran.out)) == (2, {"schema": "zorivest.tenants.check.v1", "errors": lines})


def test_check_without_a_source_says_what_to_name(run: Run, home: Path) -> None:
    words = "zorivest-rpc: tenants check: no clients are named; give --tenants-file, or set CLIENTS_CONFIG\n"
    assert run("tenants", "check") == (2, "", words)


def test_check_knows_the_toolsets(run: Run, file: Path) -> None:
    file.write_text('[clients.a]\nembedded = true\ntoolsets = ["taxes", "trade-analytics"]\n')
    assert run("tenants", "check") == (2, "", 'client "a": unknown toolset "taxes"; did you mean "tax"?\n')


def test_check_warns_of_a_file_that_others_may_read(run: Run, file: Path) -> None:
    file.chmod(0o644)
    line = f"{file}: open to group or others (mode 0644); run: chmod 600 {file}\n"
    ran = run("tenants", "check")
    assert (ran.code, ran.err) == (0, f"zorivest-rpc: {line}")
    assert run("tenants", "check", "--strict-permissions") == (2, "", line)


# --- pack


def test_what_is_packed_means_what_the_file_means(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run("tenants", "pack", str(file))
    assert ran.code == 0
    assert ran.out.startswith("H4sI")
    assert ran.out.count("\n") == 1
    document = read_variable(ran.out)
    assert dict(document.clients) == tomllib.loads(TOML)["clients"]
    assert document.access == tomllib.loads(TOML)["access"]
    before = json.loads(run("tenants", "check", "--json").out)
    monkeypatch.delenv("ZORIVEST_TENANTS_FILE")
    monkeypatch.setenv("CLIENTS_CONFIG", ran.out)
    assert {**json.loads(run("tenants", "check", "--json").out), "source": str(file)} == before


def test_a_file_that_is_wrong_is_not_packed(run: Run, home: Path) -> None:
    path = home / "x.json"
    path.write_text('{"a": {}}')
    ran = run("tenants", "pack", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        'client "a": apiBaseUrl is required',
        'client "a": give exactly one of apiKeyEnv, apiKey, authorization',
    ]


def test_pack_says_that_it_hides_nothing(run: Run, home: Path) -> None:
    path = home / "x.json"
    path.write_text('{"a": {"apiBaseUrl": "http://h", "apiKey": "zrv_sk_planted"}}')
    ran = run("tenants", "pack", str(path))
    assert ran.err.splitlines()[1] == "It holds secrets, as the file does: whoever reads it can unpack it."
    assert "planted" not in ran.out + ran.err


# --- add


def test_add_splices_a_client_into_the_file(run: Run, file: Path) -> None:
    ran = run("tenants", "add", "Beta", "--url", "https://beta.example.com", "--key-env", "BETA_KEY", "--name", "Beta")
    golden = f"""\
client "beta" added in {file}
The file as it was: {file}.tenants-backup
Its key is read from BETA_KEY.
It counts from the next start of serve on, or when serve gets SIGHUP.
"""
    assert ran == (0, golden, "")
    assert file.read_text() == TOML + (
        '\n[clients.beta]\napiBaseUrl = "https://beta.example.com"\napiKeyEnv = "BETA_KEY"\nname = "Beta"\n'
    )
    assert Path(f"{file}.tenants-backup").read_text() == TOML
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_add_twice_changes_nothing_and_another_one_of_that_id_is_refused(run: Run, file: Path) -> None:
    assert run("tenants", "add", "beta", "--embedded").code == 0
    text = file.read_text()
    assert run("tenants", "add", "BETA", "--embedded") == (0, f'nothing to change for client "beta" in {file}\n', "")
    ran = run("tenants", "add", "beta", "--url", "http://h", "--key-env", "K")
    assert (ran.code, ran.out) == (1, "")
    assert 'it has another client "beta"' in ran.err
    assert file.read_text() == text


@pytest.mark.parametrize("ending", [".toml", ".json", ".json.gz"])
def test_add_makes_a_file_that_is_private(run: Run, home: Path, ending: str) -> None:
    path = home / "new" / f"clients{ending}"
    ran = run("tenants", "add", "one", "--embedded", "--tenants-file", str(path))
    assert (ran.code, ran.err) == (0, "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("tenants", "check", "--tenants-file", str(path)).out.startswith(f"{path}: 1 client, 0 access keys\n")
    assert run("tenants", "add", "two", "--embedded", "--tenants-file", str(path)).code == 0
    ran = run("tenants", "check", "--json", "--tenants-file", str(path))
    assert [each["id"] for each in json.loads(ran.out)["clients"]] == ["one", "two"]


def test_add_keeps_the_shape_of_json(run: Run, as_json: Path) -> None:
    assert run("tenants", "add", "b", "--embedded").code == 0
    lines = as_json.read_text().splitlines()
    assert lines[:2] == JSON.splitlines()[:2]
    assert lines[2:4] == ['    "sechpos": {"embedded": true},', '    "b": {']


def test_a_trial_shows_the_change_and_writes_nothing(run: Run, file: Path) -> None:
    ran = run("tenants", "add", "b", "--embedded", "--dry-run")
    assert ran.code == 0
    assert "+[clients.b]\n+embedded = true\n" in ran.out
    assert ran.out.endswith(f'client "b" would be added in {file}; nothing was written\n')
    assert file.read_text() == TOML
    ran = run("tenants", "grant", "--clients", "acme", "--name", "d", "--dry-run")
    assert not KEY.search(ran.out)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add",), "tenants add: takes one ID, found 0"),
        (("add", "a/b", "--embedded"), "tenants add: 'a/b' is not a usable id"),
        (("add", "b"), "tenants add: takes either --embedded, or --url URL with --key-env NAME"),
        (("add", "b", "--url", "http://h"), "tenants add: takes either --embedded, or"),
        (("add", "b", "--embedded", "--url", "http://h", "--key-env", "K"), "tenants add: takes either"),
        (("add", "b", "--embedded", "--clients", "x"), "--clients: unknown option of tenants add"),
        (("add", "b", "--url", "h", "--key-env", "K"), 'client "b": apiBaseUrl must be an absolute http or https URL'),
        (("add", "b", "--url", "http://h", "--key-env", "zrv-sk"), 'client "b": apiKeyEnv must be the name of'),
        (("grant", "--name", "d"), "tenants grant: takes --clients a,b, or --clients '*' for all of them"),
        (("grant", "--clients", "acme"), "tenants grant: takes --name NAME"),
        (("grant", "--clients", "acme,ghost", "--name", "d"), 'unknown client "ghost"; there are acme, sechpos'),
        (("grant", "--clients", "acme", "--name", "d", "--seat", "king"), "--seat: 'king' is not one of none,"),
        (("revoke",), "tenants revoke: takes --name NAME"),
        (("pack",), "tenants pack: takes one FILE, found 0"),
        (("chekc",), "no command tenants chekc; did you mean check?"),
    ],
)
def test_misuse_is_2_and_writes_nothing(run: Run, file: Path, words: tuple[str, ...], told: str) -> None:
    ran = run("tenants", *words)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert file.read_text() == TOML


def test_without_a_file_to_change_it_says_what_to_name(run: Run, home: Path) -> None:
    ran = run("tenants", "add", "b", "--embedded")
    assert ran == (
        2,
        "",
        "zorivest-rpc: --tenants-file: name the file that is to be changed; one that is not there is made\n",
    )


def test_clients_in_one_piece_are_refused_with_what_to_do(run: Run, file: Path) -> None:
    file.write_text("clients = { a = { embedded = true } }\n")
    told = "its clients are written in one piece. Write each of them as a table of its own, [clients.ID], and run this"
    assert run("tenants", "add", "b", "--embedded") == (1, "", f"zorivest-rpc: {file}: {told} again.\n")


@pytest.mark.parametrize(
    "text", ["clients = { a = { embedded = true } }\n", '[clients]\na.embedded = true\n[[access]]\nname = "x"\n', "{"]
)
def test_a_file_that_cannot_be_spliced_or_is_wrong_stays_as_it_is(run: Run, file: Path, text: str) -> None:
    file.write_text(text)
    ran = run("tenants", "add", "b", "--embedded")
    assert ran.code in (1, 2)
    assert ran.err
    assert file.read_text() == text


# --- grant and revoke


def entries(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    if path.name.endswith(".toml"):
        return list(tomllib.loads(data.decode())["access"])
    return list(json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)["$access"])


def test_grant_prints_the_key_once_and_writes_its_hash_alone(run: Run, file: Path) -> None:
    ran = run("tenants", "grant", "--clients", "Acme,sechpos", "--name", "desk-2", "--seat", "admin")
    assert (ran.code, ran.err) == (0, "")
    (key,) = KEY.findall(ran.out)
    assert ran.out == (
        f'access key "desk-2" added in {file}\nThe file as it was: {file}.tenants-backup\n'
        f"The key, shown this once:\n{key}\nIt counts from the next start of serve on, or when serve gets SIGHUP.\n"
    )
    assert entries(file)[1] == {
        "keySha256": sha256(key.encode()).hexdigest(),
        "name": "desk-2",
        "clients": ["acme", "sechpos"],
        "seat": "admin",
    }
    assert file.read_text().startswith(TOML)
    assert not any(key in path.read_text() for path in file.parent.iterdir() if path.is_file())
    again = run("tenants", "grant", "--clients", "acme,sechpos", "--name", "desk-2", "--seat", "admin")
    assert again.code == 0
    assert again.out.splitlines()[0] == f'nothing to change for access key "desk-2" in {file}'
    assert not KEY.search(again.out)
    other = run("tenants", "grant", "--clients", "*", "--name", "desk-2")
    assert other.code == 1
    assert 'Run "zorivest-rpc tenants revoke --name desk-2" first' in other.err


def test_every_grant_is_another_key(run: Run, file: Path) -> None:
    keys = {
        json.loads(run("tenants", "grant", "--clients", "*", "--name", f"d{number}", "--json").out)["key"]
        for number in range(5)
    }
    assert len(keys) == 5
    assert {each["clients"] for each in entries(file)[1:]} == {"*"}


def test_a_grant_that_is_revoked_leaves_the_file_as_it_was(run: Run, file: Path) -> None:
    run("tenants", "grant", "--clients", "*", "--name", "desk-2")
    ran = run("tenants", "revoke", "--name", "desk-2")
    assert ran.out.splitlines() == [
        f'access key "desk-2" removed in {file}',
        f"The file as it was: {file}.tenants-backup",
        "Until then it opens what it opened. It counts from the next start of serve on, or when serve gets SIGHUP.",
    ]
    assert file.read_text() == TOML


def test_a_name_that_no_key_has_is_not_revoked_in_silence(run: Run, file: Path) -> None:
    run("tenants", "grant", "--clients", "*", "--name", "desk-2")
    before = file.read_text()
    ran = run("tenants", "revoke", "--name", "desk-3")
    assert (ran.code, ran.out) == (1, "")
    assert f'{file}: it has no access key "desk-3". Its access keys: "desk-1", "desk-2". Nothing was' in ran.err
    assert file.read_text() == before


def test_the_last_key_that_is_revoked_says_what_follows(run: Run, as_json: Path) -> None:
    run("tenants", "grant", "--clients", "acme", "--name", "only")
    ran = run("tenants", "revoke", "--name", "only")
    assert ran.out.splitlines()[-1] == ("There is no access key left: over HTTP serve does not start without one.")
    assert json.loads(as_json.read_text()) == json.loads(JSON)


def test_grant_works_on_every_kind_of_file(run: Run, home: Path) -> None:
    for ending in ("json", "json.gz", "toml"):
        path = home / f"c.{ending}"
        assert run("tenants", "add", "a", "--embedded", "--tenants-file", str(path)).code == 0
        for name in ("x", "y", "z"):
            words = ("--clients", "a", "--name", name, "--tenants-file", str(path))
            assert run("tenants", "grant", *words).code == 0
        assert run("tenants", "revoke", "--name", "y", "--tenants-file", str(path)).code == 0
        assert [each["name"] for each in entries(path)] == ["x", "z"]


# --- a variable, which cannot be written


def test_with_the_variable_the_entry_is_shown(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps({"a": {"embedded": True}, "$access": [{"keySha256": "0" * 64, "name": "d", "clients": "*"}]})
    monkeypatch.setenv("CLIENTS_CONFIG", compress(text.encode()))
    assert run("tenants", "add", "b", "--embedded") == (
        0,
        "CLIENTS_CONFIG cannot be written from here. Put this into CLIENTS_CONFIG:\n"
        '{\n  "b": {\n    "embedded": true\n  }\n}\n',
        "",
    )
    told = json.loads(run("tenants", "grant", "--clients", "a", "--name", "e", "--json").out)
    assert told["entry"] == {
        "keySha256": sha256(told["key"].encode()).hexdigest(),
        "name": "e",
        "clients": ["a"],
    }
    assert run("tenants", "grant", "--clients", "b", "--name", "e").code == 2
    assert run("tenants", "grant", "--clients", "a", "--name", "d").code == 2
    assert run("tenants", "revoke", "--name", "d").out == (
        "CLIENTS_CONFIG cannot be written from here. Take this out of the list $access of CLIENTS_CONFIG:\n"
        '{\n  "name": "d"\n}\n'
    )
    assert run("tenants", "revoke", "--name", "x").code == 2


def test_help_lists_the_forms_and_the_options(run: Run, home: Path) -> None:
    ran = run("tenants", "--help")
    assert ran.code == 0
    for word in ("tenants pack FILE", "--embedded", "--strict-permissions", "--tenants-file"):
        assert word in ran.out


def test_grants_at_the_same_time_are_all_kept(file: Path) -> None:
    words = [sys.executable, "-m", "zorivest_rpc", "tenants", "grant", "--clients", "acme", "--json", "--name"]
    running = [
        subprocess.Popen([*words, f"at-once-{number}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(10)
    ]
    keys = [json.loads(process.communicate(timeout=60)[0])["key"] for process in running]
    kept = {rule["keySha256"] for rule in entries(file)}
    assert {sha256(key.encode()).hexdigest() for key in keys} < kept


def test_a_directory_that_cannot_be_written_is_told(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also as root, who may write anywhere: what stands in the way is a directory where the lock would be."""
    (file.parent / f".{file.name}.lock").mkdir()
    ran = run("tenants", "grant", "--clients", "*", "--name", "desk-2")
    assert (ran.code, ran.out) == (1, "")
    assert "it cannot be locked: Is a directory" in ran.err
    assert file.read_text() == TOML
