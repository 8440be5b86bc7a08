"""Where a journal lives when nobody says: one answer for the server, the backend and every command."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from zorivest_rpc.cli.admin import add_data_dir
from zorivest_rpc.config import chosen_data_dir, default_data_dir, parse

ANN = r"C:\Users\ann"


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {"HOME": "/home/a"}, "/home/a/.local/share/zorivest"),
        ("linux", {"HOME": "/home/a", "XDG_DATA_HOME": ""}, "/home/a/.local/share/zorivest"),
        ("linux", {"HOME": "/home/a", "XDG_DATA_HOME": "/xdg"}, "/xdg/zorivest"),
        ("linux", {"HOME": "/home/a", "LOCALAPPDATA": "/local"}, "/home/a/.local/share/zorivest"),
        ("darwin", {"HOME": "/Users/a", "XDG_DATA_HOME": "/xdg"}, "/Users/a/Library/Application Support/zorivest"),
        ("win32", {"USERPROFILE": ANN, "LOCALAPPDATA": r"D:\data"}, r"D:\data\zorivest"),
        ("win32", {"USERPROFILE": ANN}, rf"{ANN}\AppData\Local\zorivest"),
        ("win32", {"USERPROFILE": ANN, "LOCALAPPDATA": ""}, rf"{ANN}\AppData\Local\zorivest"),
        ("win32", {"USERPROFILE": ANN, "HOME": "/c/Users/other"}, rf"{ANN}\AppData\Local\zorivest"),
    ],
)
def test_each_platform_keeps_the_journal_where_it_keeps_such_things(
    platform: str, environ: dict[str, str], expected: str
) -> None:
    assert default_data_dir(environ, platform) == expected


@pytest.mark.parametrize("chosen", [None, "/srv/journal", "~/journal"])
def test_server_and_commands_agree(chosen: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("ZORIVEST_DATA_DIR", raising=False)
    if chosen is not None:
        monkeypatch.setenv("ZORIVEST_DATA_DIR", chosen)
    parser = argparse.ArgumentParser()
    add_data_dir(parser)
    given = parser.parse_args([]).data_dir
    assert str(given) == parse("stdio", []).data_dir == chosen_data_dir(os.environ)
    assert default_data_dir(os.environ) == str(tmp_path / ".local/share/zorivest")
