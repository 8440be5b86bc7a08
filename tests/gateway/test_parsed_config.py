"""The tables of the configuration file are kept for the next start, and count for the very same bytes alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zorivest_rpc.config_file import ConfigFileRefused, Found, find, keep_parsed

TEXT = """[server]
toolsets = "core"

[[profiles.default.mcp_servers]]
name = "ops"
endpoint = "https://x.example/mcp"
"""
KEPT = "parsed-config.json"


def look(path: Path, data: Path) -> Found:
    return find(str(path), {}, str(data), str(data))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir(mode=0o700)
    return place


def keep(file: Path, data: Path) -> None:
    found = look(file, data).file
    assert found is not None
    keep_parsed(found, str(data))


def test_the_second_start_parses_nothing_and_reads_the_same(file: Path, data: Path) -> None:
    first = look(file, data)
    keep(file, data)
    code = (
        "import sys; from zorivest_rpc.config_file import find; "
        f"found = find({str(file)!r}, {{}}, {str(data)!r}, '').file; "
        "import json; print(json.dumps(found.document)); print('tomllib' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert first.file is not None
    assert json.loads(said[0]) == first.file.document
    assert said[1] == "False"
    assert (data / KEPT).stat().st_mode & 0o777 == 0o600


def test_other_bytes_are_parsed_anew(file: Path, data: Path) -> None:
    keep(file, data)
    file.write_text(TEXT.replace("core", "tax "))
    found = look(file, data).file
    assert found is not None
    assert found.document["server"]["toolsets"] == "tax "
    file.write_text(TEXT + "broken =")
    with pytest.raises(ConfigFileRefused):
        look(file, data)


@pytest.mark.parametrize(
    "kept",
    [b"", b"{", b"[]", b"7", b"{}", b'{"source": 7, "document": {}}', b"\xff\xfe", b'{"source": "x", "document": {}}'],
)
def test_what_is_kept_and_damaged_counts_for_nothing(file: Path, data: Path, kept: bytes) -> None:
    (data / KEPT).write_bytes(kept)
    found = look(file, data).file
    assert found is not None
    assert found.document["server"] == {"toolsets": "core"}


def test_tables_that_json_would_change_are_not_kept(file: Path, data: Path) -> None:
    file.write_text(TEXT + "\n[other]\nday = 2026-01-05\nnumber = inf\n")
    keep(file, data)
    assert not (data / KEPT).exists()


def test_a_directory_that_takes_no_file_is_no_failure(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("")
    keep(file, place)
    assert place.read_text() == ""
