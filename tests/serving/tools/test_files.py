"""Which files of this machine may be read, and which may not."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from zorivest_rpc.errors import FileRefused
from zorivest_rpc.serving.tools.files import ImportRoots, default_roots


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "imports"
    (directory / "2026").mkdir(parents=True)
    (directory / "trades.csv").write_bytes(b"a,b\r\n")
    (directory / "2026" / "q1.csv").write_bytes(b"q1")
    (tmp_path / "secret.csv").write_bytes(b"secret")
    (tmp_path / "imports-not").mkdir()
    (tmp_path / "imports-not" / "x.csv").write_bytes(b"no")
    return directory


def refused(roots: ImportRoots, path: str) -> str:
    with pytest.raises(FileRefused) as error:
        roots.read(path)
    assert error.value.next
    return error.value.code


def test_the_journal_s_own_directory_is_opened_by_no_directory_around_it(tmp_path: Path, root: Path) -> None:
    token = tmp_path / "approval.token"
    token.write_text("apt_secret")
    (tmp_path / "link.csv").symlink_to(token)
    (root / "link.csv").symlink_to(token)
    around = ImportRoots([str(tmp_path.parent), str(tmp_path), str(root)], private=str(tmp_path))
    for path in (str(token), "approval.token", "link.csv", str(root / "link.csv"), f"{tmp_path.name}/approval.token"):
        assert refused(around, path) in ("file_outside_roots", "file_not_found")
    assert around.read("trades.csv").data == b"a,b\r\n"
    assert around.read(str(root / "2026" / "q1.csv")).data == b"q1"
    assert ImportRoots([str(tmp_path.parent)], private=str(root)).read(str(tmp_path / "secret.csv")).data == b"secret"


def test_a_file_below_a_root_is_read_by_its_full_or_relative_name(root: Path) -> None:
    roots = ImportRoots([str(root)])
    assert roots.read(str(root / "trades.csv")).data == b"a,b\r\n"
    assert roots.read("trades.csv").name == "trades.csv"
    assert roots.read("2026/../2026/q1.csv").data == b"q1"


def test_a_relative_name_is_looked_for_in_every_root(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert ImportRoots([str(other), str(root)]).read("trades.csv").data == b"a,b\r\n"


@pytest.mark.parametrize(
    "path",
    ["../secret.csv", "2026/../../secret.csv", "/etc/passwd", "/proc/self/environ", "", ".", "a\0b", "/", "~root/x"],
)
def test_nothing_outside_is_read(root: Path, path: str) -> None:
    assert refused(ImportRoots([str(root)]), path) in ("file_outside_roots", "file_not_found")


def test_a_directory_whose_name_begins_alike_is_outside(root: Path) -> None:
    assert refused(ImportRoots([str(root)]), str(root) + "-not/x.csv") == "file_outside_roots"


def test_outside_it_is_not_told_what_exists(root: Path, tmp_path: Path) -> None:
    roots = ImportRoots([str(root)])
    texts = set()
    for name in ("secret.csv", "missing.csv"):
        with pytest.raises(FileRefused) as error:
            roots.read(str(tmp_path / name))
        texts.add(error.value.text.replace(name, "NAME"))
    assert len(texts) == 1


def test_a_link_counts_by_where_it_leads(root: Path, tmp_path: Path) -> None:
    (root / "out.csv").symlink_to(tmp_path / "secret.csv")
    (root / "in.csv").symlink_to(root / "trades.csv")
    (root / "dir").symlink_to(tmp_path)
    roots = ImportRoots([str(root)])
    assert refused(roots, "out.csv") == "file_outside_roots"
    assert refused(roots, "dir/secret.csv") == "file_outside_roots"
    assert roots.read("in.csv").data == b"a,b\r\n"


def test_a_root_may_be_a_link_itself(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    roots = ImportRoots([str(tmp_path / "link")])
    assert roots.read(str(tmp_path / "link" / "trades.csv")).data == b"a,b\r\n"


def test_a_link_in_circles_ends(root: Path) -> None:
    (root / "a").symlink_to(root / "b")
    (root / "b").symlink_to(root / "a")
    assert refused(ImportRoots([str(root)]), "a") in ("file_unreadable", "file_not_found")


@pytest.fixture(params=["linux", "linux without /proc", "darwin", "win32"])
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way in which a platform lets us learn what was really opened."""
    system = SimpleNamespace(platform=request.param.partition(" ")[0])
    monkeypatch.setattr("zorivest_rpc.serving.tools.files.sys", system)
    really_readlink = os.readlink

    def readlink(path: str, **at: int) -> str:
        if str(path).startswith("/proc/"):
            assert request.param.startswith("linux"), "elsewhere /proc/self/fd may be anything"
            if request.param != "linux":
                raise FileNotFoundError(path)
        return really_readlink(path, **at)

    monkeypatch.setattr(os, "readlink", readlink)


def do_around_opening(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Do something between the judgement of a name and its opening, and something right after that."""
    really_open = os.open

    def opening(path: str, flags: int) -> int:
        before()
        handle = really_open(path, flags)
        after()
        return handle

    monkeypatch.setattr(os, "open", opening)


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("is_put_back", [False, True])
def test_what_is_exchanged_after_it_was_judged_is_not_read(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_put_back: bool
) -> None:
    inside, aside, outside = root / "2026", tmp_path / "aside", tmp_path / "outside"
    outside.mkdir()
    (outside / "q1.csv").write_bytes(b"secret")

    def exchange() -> None:
        inside.rename(aside)
        inside.symlink_to(outside)

    def put_back() -> None:
        if is_put_back:  # the name means the judged file again when it is looked at once more
            inside.unlink()
            aside.rename(inside)

    do_around_opening(monkeypatch, exchange, put_back)
    assert refused(ImportRoots([str(root)]), "2026/q1.csv") == "file_outside_roots"


@pytest.mark.usefixtures("platform")
def test_an_allowed_file_is_read_on_every_platform(root: Path) -> None:
    (root / "in.csv").symlink_to(root / "trades.csv")
    for name in ("trades.csv", "in.csv", str(root / "trades.csv")):
        assert ImportRoots([str(root)]).read(name).data == b"a,b\r\n"


def test_a_directory_a_pipe_and_a_socket_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(root / "socket"))
    listener.close()
    roots = ImportRoots([str(root)])
    for name in ("2026", "pipe", "socket"):
        assert refused(roots, name) == "file_unreadable"


def test_a_device_is_refused_even_if_its_directory_is_allowed() -> None:
    roots = ImportRoots(["/dev"])
    for name in ("null", "zero", "random"):
        assert refused(roots, name) == "file_unreadable"


def test_a_missing_file_is_called_missing(root: Path) -> None:
    assert refused(ImportRoots([str(root)]), "nope.csv") == "file_not_found"


def test_the_size_has_a_limit(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 101)
    (root / "fits").write_bytes(b"x" * 100)
    roots = ImportRoots([str(root)], limit=100)
    assert refused(roots, "big") == "file_too_large"
    assert len(roots.read("fits").data) == 100


def test_without_another_limit_fifty_mebibytes_are_taken(root: Path) -> None:
    for name, size in (("fits", 50 * 1024 * 1024), ("big", 50 * 1024 * 1024 + 1)):
        with (root / name).open("wb") as file:
            file.truncate(size)
    roots = ImportRoots([str(root)])
    assert len(roots.read("fits").data) == 50 * 1024 * 1024
    with pytest.raises(FileRefused, match="has 52428801 bytes, and at most 52428800 are taken"):
        roots.read("big")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "big").write_bytes(b"x" * 205)
    with pytest.raises(FileRefused, match="has 205 bytes"):  # and not as many as were read
        ImportRoots([str(root)], limit=100).read("big")


@pytest.mark.parametrize("broken", ["open", "fdopen"])
@pytest.mark.parametrize(("facts", "words"), [((5, "Input/output error"), "input/output error"), ((), "")])
def test_a_disk_that_fails_is_told_in_its_own_words(
    root: Path, monkeypatch: pytest.MonkeyPatch, broken: str, facts: tuple[object, ...], words: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(*facts)

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(FileRefused) as refused:
        ImportRoots([str(root)]).read("trades.csv")
    words = words or ("cannot be opened" if broken == "open" else "cannot be read")
    assert f"cannot be read: {words}. " in refused.value.text
    assert refused.value.code == "file_unreadable"


def test_a_file_that_grows_while_it_is_read_is_not_sent_in_part(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "grows"
    path.write_bytes(b"x" * 100)
    really_stat = os.fstat

    def stat_then_grow(handle: int) -> os.stat_result:
        facts = really_stat(handle)
        path.write_bytes(b"x" * 500)
        return facts

    monkeypatch.setattr(os, "fstat", stat_then_grow)
    assert refused(ImportRoots([str(root)], limit=100), "grows") == "file_too_large"


def test_a_refusal_names_the_directories_that_may_be_read(root: Path, tmp_path: Path) -> None:
    for roots, allowed in (([str(root), str(tmp_path / "b")], f"{root}, {tmp_path / 'b'}"), ([], "no directory")):
        with pytest.raises(FileRefused, match=rf"Allowed: {allowed}\. Move the file there"):
            ImportRoots(roots).read("/etc/passwd")


def test_another_drive_is_outside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(paths: object) -> str:
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", fail)
    assert refused(ImportRoots([str(root)]), str(root / "trades.csv")) == "file_outside_roots"


def test_without_roots_nothing_is_read(root: Path) -> None:
    assert refused(ImportRoots([]), str(root / "trades.csv")) == "file_outside_roots"
    assert refused(ImportRoots([]), "trades.csv") == "file_outside_roots"


def test_handles_are_closed(root: Path) -> None:
    roots = ImportRoots([str(root)], limit=3)
    before = len(os.listdir("/proc/self/fd"))
    for name in ("trades.csv", "2026", "nope"):
        with pytest.raises(FileRefused):
            roots.read(name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("here", "counts"),
    [
        ("/", False),
        ("{home}", False),
        ("{home}/.local", False),  # above the data directory
        ("{home}/link", False),  # a link to the home directory
        ("{home}/trading", True),
        ("{home}/.local/journal-exports", True),  # its name begins like the data directory's
        ("{home}/.local/journal/imports/2026", True),
    ],
)
def test_the_working_directory_counts_unless_it_is_too_wide(tmp_path: Path, here: str, counts: bool) -> None:
    home, data_dir = tmp_path / "home", tmp_path / "home" / ".local" / "journal"
    (data_dir / "imports" / "2026").mkdir(parents=True)
    (home / "link").symlink_to(home)
    working = here.format(home=home)
    roots = default_roots(str(data_dir), working, str(home))
    assert roots == (str(data_dir / "imports"), *([working] if counts else []))


def test_a_home_directory_that_is_apart_from_the_data_directory_is_too_wide(tmp_path: Path) -> None:
    home, data_dir = tmp_path / "home", tmp_path / "var" / "journal"
    for directory in (home / "trading", data_dir):
        directory.mkdir(parents=True)
    imports = str(data_dir / "imports")
    assert default_roots(str(data_dir), str(home), str(home)) == (imports,)
    assert default_roots(str(data_dir), str(home / "trading"), str(home)) == (imports, str(home / "trading"))


def test_without_a_working_directory_only_the_imports_folder_is_read(tmp_path: Path) -> None:
    assert default_roots(str(tmp_path), None, "/home/x") == (str(tmp_path / "imports"),)
