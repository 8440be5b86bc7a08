"""Finding and starting the desktop application, on every platform by table and on Linux for real."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.serving.tools.stage import FakeBackend, Stage, Starts, bare_machine, fits, kit, make_call, payload
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Outcome
from zorivest_rpc.serving.tools.desktop import (
    Command,
    Desktop,
    DesktopProgram,
    Machine,
    Processes,
    command_for,
    command_to_open,
    find,
    machine,
)

PAGE = "https://example.test/releases/latest"


def having(*paths: str, **facts: Any) -> Machine:
    return bare_machine(exists=lambda path: path in paths, **facts)


# --- finding

WINDOWS: dict[str, Any] = {
    "system": "windows",
    "local_app_data": r"C:\Users\Ada\AppData\Local",
    "program_files": r"C:\Program Files",
    "server_directory": r"C:\src\zorivest\mcp-server\dist",
}
MACOS: dict[str, Any] = {"system": "macos", "server_directory": "/Users/ada/zorivest/mcp-server"}
LINUX: dict[str, Any] = {"system": "linux", "server_directory": "/home/ada/zorivest/mcp-server"}
PER_USER = r"C:\Users\Ada\AppData\Local\Programs\Zorivest\Zorivest.exe"
FOR_ALL = r"C:\Program Files\Zorivest\Zorivest.exe"


@pytest.mark.parametrize(
    ("facts", "paths", "expected"),
    [
        (WINDOWS, [PER_USER], DesktopProgram(PER_USER, "installed")),
        (WINDOWS, [FOR_ALL], DesktopProgram(FOR_ALL, "installed")),
        (MACOS, ["/Applications/Zorivest.app"], DesktopProgram("/Applications/Zorivest.app", "installed")),
        (LINUX, ["/usr/bin/zorivest"], DesktopProgram("/usr/bin/zorivest", "installed")),
        (LINUX, ["/usr/local/bin/zorivest"], DesktopProgram("/usr/local/bin/zorivest", "installed")),
        (
            WINDOWS,
            [r"C:\src\zorivest\.git", r"C:\src\zorivest\ui\package.json"],
            DesktopProgram(r"C:\src\zorivest\ui", "dev"),
        ),
        (
            MACOS,
            ["/Users/ada/zorivest/.git", "/Users/ada/zorivest/ui/package.json"],
            DesktopProgram("/Users/ada/zorivest/ui", "dev"),
        ),
        (
            LINUX,
            ["/home/ada/zorivest/.git", "/home/ada/zorivest/ui/package.json"],
            DesktopProgram("/home/ada/zorivest/ui", "dev"),
        ),
        (LINUX, ["/home/ada/zorivest/ui/package.json"], None),  # no repository
        (LINUX, ["/home/ada/zorivest/.git", "/home/ada/ui/package.json"], None),  # outside the repository
        (LINUX, [], None),
        (WINDOWS, [], None),
    ],
)
def test_each_platform_has_its_places(facts: dict[str, Any], paths: list[str], expected: DesktopProgram | None) -> None:
    assert find(having(*paths, **facts)) == expected


def test_the_search_path_comes_before_the_variable() -> None:
    everything = {"which": lambda name: f"/opt/bin/{name}", "gui_path": "/opt/zorivest/gui"}
    checkout = ("/home/ada/zorivest/.git", "/home/ada/zorivest/ui/package.json")
    on = having("/opt/zorivest/gui", "/usr/bin/zorivest", *checkout, **LINUX, **everything)
    assert find(on) == DesktopProgram("/usr/bin/zorivest", "installed")
    on = having("/opt/zorivest/gui", *checkout, **LINUX, **everything)
    assert find(on) == DesktopProgram("/home/ada/zorivest/ui", "dev")
    on = having("/opt/zorivest/gui", **LINUX, **everything)
    assert find(on) == DesktopProgram("/opt/bin/zorivest", "path")
    on = having("/opt/zorivest/gui", **LINUX, gui_path="/opt/zorivest/gui")
    assert find(on) == DesktopProgram("/opt/zorivest/gui", "env")


@pytest.mark.parametrize("packages", ["site-packages", "dist-packages"])
def test_an_installed_server_runs_no_project_that_its_environment_lies_in(packages: str) -> None:
    inside = f"/home/ada/shop/.venv/lib/python3.11/{packages}/zorivest_rpc"
    assert find(having("/home/ada/shop/.git", "/home/ada/shop/ui/package.json", server_directory=inside)) is None
    project = (r"C:\shop\.git", r"C:\shop\ui\package.json")
    inside = rf"C:\shop\.venv\Lib\{packages}\zorivest_rpc"
    assert find(having(*project, **WINDOWS | {"server_directory": inside})) is None
    assert find(having(*project, **WINDOWS | {"server_directory": r"C:\shop\mcp"})) is not None


def test_a_variable_that_names_nothing_finds_nothing() -> None:
    assert find(having(**LINUX, gui_path="/opt/gone")) is None


@pytest.mark.parametrize(("platform", "system"), [("win32", "windows"), ("darwin", "macos"), ("linux", "linux")])
def test_the_facts_come_from_the_environment_that_is_passed_in(platform: str, system: str) -> None:
    environ = {"LOCALAPPDATA": "L", "ProgramFiles": "P", "ZORIVEST_GUI_PATH": "G"}
    on = machine(platform, environ, "/srv", exists=os.path.exists, which=lambda name: None)
    assert (on.system, on.local_app_data, on.program_files, on.gui_path) == (system, "L", "P", "G")


# --- the commands

RUNNABLE = '[ -x "$0" ] || exit 126; '
QUIET = ">/dev/null 2>&1 </dev/null & p=$!; sleep 1; kill -0 $p 2>/dev/null && exit 0; wait $p"
APP = "/Applications/Zorivest.app"


@pytest.mark.parametrize(
    ("system", "found", "expected"),
    [
        ("windows", DesktopProgram(PER_USER, "installed"), Command(shell=f'start "" "{PER_USER}"')),
        ("windows", DesktopProgram(r"D:\a & b\z.exe", "env"), Command(shell=r'start "" "D:\a & b\z.exe"')),
        (
            "windows",
            DesktopProgram(r"C:\src\ui", "dev"),
            Command(shell=r'start "" /d "C:\src\ui" cmd.exe /c npm run dev'),
        ),
        ("macos", DesktopProgram(APP, "installed"), Command(("open", "-a", APP))),
        (
            "macos",
            DesktopProgram("/opt/zorivest", "path"),
            Command(("/bin/sh", "-c", f'{RUNNABLE}nohup "$0" {QUIET}', "/opt/zorivest")),
        ),
        (
            "macos",
            DesktopProgram("/r/ui", "dev"),
            Command(("/bin/sh", "-c", f'cd "$0" && nohup npm run dev {QUIET}', "/r/ui")),
        ),
        (
            "linux",
            DesktopProgram("/usr/bin/zorivest", "installed"),
            Command(("/bin/sh", "-c", f'{RUNNABLE}setsid "$0" {QUIET}', "/usr/bin/zorivest")),
        ),
        (
            "linux",
            DesktopProgram('/opt/my "app"; rm -rf $HOME', "env"),
            Command(("/bin/sh", "-c", f'{RUNNABLE}setsid "$0" {QUIET}', '/opt/my "app"; rm -rf $HOME')),
        ),
        (
            "linux",
            DesktopProgram("/r/ui", "dev"),
            Command(("/bin/sh", "-c", f'cd "$0" && setsid nohup npm run dev {QUIET}', "/r/ui")),
        ),
    ],
)
def test_the_command_that_starts_it_detached(system: Any, found: DesktopProgram, expected: Command) -> None:
    assert command_for(system, found) == expected


@pytest.mark.parametrize(
    ("system", "found", "expected"),
    [
        ("windows", DesktopProgram(PER_USER, "installed"), Command((PER_USER,))),
        ("windows", DesktopProgram(r"C:\src\ui", "dev"), Command(shell="npm run dev", directory=r"C:\src\ui")),
        ("macos", DesktopProgram(APP, "installed"), Command(("open", "-W", "-a", APP))),
        ("macos", DesktopProgram("/opt/zorivest", "path"), Command(("/opt/zorivest",))),
        ("linux", DesktopProgram("/usr/bin/zorivest", "installed"), Command(("/usr/bin/zorivest",))),
        ("linux", DesktopProgram("/r/ui", "dev"), Command(("npm", "run", "dev"), directory="/r/ui")),
    ],
)
def test_the_command_that_is_waited_for(system: Any, found: DesktopProgram, expected: Command) -> None:
    assert command_for(system, found, wait=True) == expected


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("windows", Command(shell=f'start "" "{PAGE}"')),
        ("macos", Command(("open", PAGE))),
        ("linux", Command(("/bin/sh", "-c", f'setsid xdg-open "$0" {QUIET}', PAGE))),
    ],
)
def test_the_command_that_opens_a_page(system: Any, expected: Command) -> None:
    assert command_to_open(system, PAGE) == expected


@pytest.mark.parametrize("path", ['C:\\a"b.exe', "C:\\%PATH%\\z.exe", "C:\\a\nb.exe"])
def test_a_windows_path_that_cannot_be_quoted_is_refused(path: str) -> None:
    with pytest.raises(ToolError) as refusal:
        command_for("windows", DesktopProgram(path, "env"))
    assert refusal.value.code == "unsafe_path"


# --- the tool


async def launch(
    on: Machine, starts: Any, page: str | None = PAGE, own_page: str | None = None, **arguments: Any
) -> Outcome:
    outcome = await Desktop(kit(FakeBackend()), on, starts, page=page, own_page=own_page).launch_gui(
        make_call("zorivest_launch_gui", **arguments)
    )
    fits("zorivest_launch_gui", payload(outcome))
    return outcome


async def test_an_installed_application_is_started() -> None:
    starts = Starts()
    outcome = await launch(having("/usr/bin/zorivest"), starts)
    assert not outcome.is_error
    found = payload(outcome)
    assert (found["gui_found"], found["method"]) == (True, "installed")
    assert "setup_instructions" not in found
    assert starts.commands == [(command_for("linux", DesktopProgram("/usr/bin/zorivest", "installed")), False)]


async def test_a_checkout_is_started_with_npm() -> None:
    starts = Starts()
    found = payload(
        await launch(having("/home/ada/zorivest/.git", "/home/ada/zorivest/ui/package.json", **LINUX), starts)
    )
    assert found["method"] == "dev"
    assert "npm run dev" in starts.commands[0][0].argv[2]
    assert "npm run dev" in found["message"]


@pytest.mark.parametrize(
    ("on", "found"),
    [
        (having("/usr/local/bin/zorivest", **LINUX), DesktopProgram("/usr/local/bin/zorivest", "installed")),
        (having("/r/.git", "/r/ui/package.json", server_directory="/r/mcp"), DesktopProgram("/r/ui", "dev")),
        (having(**LINUX, which=lambda name: f"/opt/bin/{name}"), DesktopProgram("/opt/bin/zorivest", "path")),
        (having("/opt/gui", **LINUX, gui_path="/opt/gui"), DesktopProgram("/opt/gui", "env")),
        (having(APP, **MACOS), DesktopProgram(APP, "installed")),
        (having(PER_USER, **WINDOWS), DesktopProgram(PER_USER, "installed")),
    ],
    ids=["installed", "dev", "path", "env", "macos", "windows"],
)
async def test_it_is_started_wherever_it_is_found(on: Machine, found: DesktopProgram) -> None:
    starts = Starts()
    told = payload(await launch(on, starts))
    assert (told["gui_found"], told["method"]) == (True, found.method)
    assert starts.commands == [(command_for(on.system, found), False)]
    assert found.path in told["message"]


async def test_it_can_be_waited_for() -> None:
    starts = Starts()
    found = payload(await launch(having("/usr/bin/zorivest"), starts, wait_for_close=True))
    assert starts.commands == [(Command(("/usr/bin/zorivest",)), True)]
    assert "closed" in found["message"]


async def test_without_an_application_instructions_come_back_and_the_page_opens() -> None:
    starts = Starts()
    outcome = await launch(bare_machine(), starts)
    assert not outcome.is_error
    found = payload(outcome)
    assert found["gui_found"] is False
    assert "method" not in found
    instructions = found["setup_instructions"]
    assert instructions["desktop_app"]["url"] == PAGE
    assert {"description", "windows", "macos", "linux"} <= set(instructions["desktop_app"])
    assert instructions["from_source"]["steps"] == ["cd ui", "npm install", "npm run dev"]
    assert "ZORIVEST_GUI_PATH" in instructions["env_hint"]
    assert starts.commands == [(command_to_open("linux", PAGE), False)]


async def test_a_browser_that_fails_does_not_fail_the_call() -> None:
    outcome = await launch(bare_machine(), Starts(FileNotFoundError(2, "No such file")))
    assert not outcome.is_error
    assert "browser" not in payload(outcome)["message"]


async def test_without_a_page_no_browser_is_opened() -> None:
    starts = Starts()
    found = payload(await launch(bare_machine(), starts, page=None))
    assert starts.commands == []
    assert "url" not in found["setup_instructions"]["desktop_app"]


async def test_a_start_that_fails_says_so_with_the_error_flag() -> None:
    outcome = await launch(having("/usr/bin/zorivest"), Starts(PermissionError(13, "Permission denied")))
    assert outcome.is_error
    found = payload(outcome)
    assert (found["gui_found"], found["method"]) == (True, "installed")
    assert "permission denied" in found["message"]
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/error"]["code"] == "launch_failed"


async def test_a_client_opens_the_application_with_backend_and_guard_away() -> None:
    stage = Stage(FakeBackend(), on=having("/usr/bin/zorivest"))
    client = await stage.connect()
    answer = await client.call("zorivest_launch_gui")
    assert answer["structuredContent"]["method"] == "installed"
    assert stage.backend.asked == []
    assert len(stage.starts.commands) == 1


# --- for real

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="starts processes the Linux way")


def script(path: Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


class Pipe:
    """A named pipe, held open at both ends, so that neither side's opening waits; reading gives up after a while."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDWR)

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._end)

    def write(self, line: str) -> None:
        os.write(self._end, line.encode())

    async def read(self) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, self._read)

    def _read(self) -> str:
        ready, _, _ = select.select([self._end], [], [], 15)
        assert ready, f"nothing was written to {self.path.name}"
        return os.read(self._end, 4096).decode()


PARENT = """
import asyncio, sys
from tests.serving.tools.stage import FakeBackend, bare_machine, kit, make_call
from zorivest_rpc.serving.tools.desktop import Desktop, Processes

async def main():
    on = bare_machine(exists=lambda path: path == sys.argv[1], gui_path=sys.argv[1])
    await Desktop(kit(FakeBackend()), on, Processes()).launch_gui(make_call("zorivest_launch_gui"))
    await asyncio.Event().wait()

asyncio.run(main())
"""


def serve(gui: str) -> subprocess.Popen[bytes]:
    """A server process, the leader of its own group as an editor would make it, that opens the application."""
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, gui],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        cwd=ROOT,
    )


@linux_only
async def test_the_application_survives_the_death_of_the_server_and_its_process_group(tmp_path: Path) -> None:
    """It tells its process id, is asked again after the server was killed, and answers."""
    with Pipe(tmp_path / "answers") as answers, Pipe(tmp_path / "questions") as questions:
        gui = script(
            tmp_path / "gui",
            f'echo $$ >"{answers.path}"\nread word <"{questions.path}"\necho "still $word" >"{answers.path}"\n',
        )
        server, application = serve(gui), 0
        try:
            application = int(await answers.read())
            assert os.getsid(application) == application != os.getsid(server.pid)
            os.killpg(server.pid, signal.SIGKILL)
            assert server.wait(10) == -signal.SIGKILL
            questions.write("here\n")
            assert await answers.read() == "still here\n"
            application = 0
        finally:
            if server.poll() is None:
                server.kill()
                server.wait(10)
            if application:
                os.kill(application, signal.SIGKILL)


@linux_only
async def test_waiting_ends_with_the_application_whatever_its_exit_code(tmp_path: Path) -> None:
    done = tmp_path / "done"
    gui = script(tmp_path / "gui", f'echo yes >"{done}"\nexit 3\n')
    await Processes(sleep=lambda seconds: asyncio.sleep(0.01))(Command((gui,)), True)
    assert done.read_text() == "yes\n"


@linux_only
async def test_a_cancelled_wait_leaves_the_application_running(tmp_path: Path) -> None:
    with Pipe(tmp_path / "answers") as answers, Pipe(tmp_path / "questions") as questions:
        gui = script(
            tmp_path / "gui",
            f'echo up >"{answers.path}"\nread word <"{questions.path}"\necho "$word" >"{answers.path}"\n',
        )
        processes = Processes(sleep=lambda seconds: asyncio.sleep(0.01))
        waiting = asyncio.create_task(processes(Command((gui,)), True))
        assert await answers.read() == "up\n"
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (left,) = processes._left
        assert os.getsid(left.pid) == left.pid
        nothing = Command(("/bin/sh", "-c", "exit 0"))
        await processes(nothing, True)
        assert processes._left == [left]  # kept while it runs, so that it is reaped
        questions.write("alive\n")
        assert await answers.read() == "alive\n"
        assert left.wait(60) == 0
        await processes(nothing, True)
        assert processes._left == []


@linux_only
async def test_the_api_key_is_not_handed_to_the_application(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    gui = script(tmp_path / "gui", f'env >"{seen}"\n')
    environ = {"PATH": os.environ["PATH"], "ZORIVEST_API_KEY": "zrv_sk_planted", "LANG": "C"}
    await Processes(environ, sleep=lambda seconds: asyncio.sleep(0.01))(Command((gui,)), True)
    assert "LANG=C" in seen.read_text()
    assert "zrv_sk_planted" not in seen.read_text()


@linux_only
async def test_what_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    processes = Processes()
    with pytest.raises(OSError):
        await processes(Command((str(tmp_path / "absent"),)), True)
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(OSError, match="not executable"):
        await processes(command_for("linux", DesktopProgram(str(tmp_path / "plain"), "env")), False)
    with pytest.raises(OSError, match="code 7"):
        await processes(Command(("/bin/sh", "-c", "exit 7")), False)


@linux_only
async def test_a_program_that_dies_at_once_is_told_and_one_that_stays_or_hands_over_is_started(tmp_path: Path) -> None:
    processes = Processes()
    dying = script(tmp_path / "dying", "exit 3\n")
    with pytest.raises(OSError, match="ended at once with code 3"):
        await processes(command_for("linux", DesktopProgram(dying, "env")), False)
    outcome = await launch(having(dying, gui_path=dying), processes)
    assert outcome.is_error
    assert "could not be started: it ended at once with code 3" in payload(outcome)["message"]
    await processes(command_for("linux", DesktopProgram(script(tmp_path / "wrapper", "exit 0\n"), "env")), False)
    with Pipe(tmp_path / "questions") as questions:
        staying = script(tmp_path / "staying", f'read word <"{questions.path}"\n')
        await processes(command_for("linux", DesktopProgram(staying, "env")), False)
        questions.write("bye\n")


@linux_only
async def test_the_page_is_said_to_be_open_only_where_something_opened_it(tmp_path: Path) -> None:
    opened, bare = tmp_path / "opened", tmp_path / "bin"
    bare.mkdir()
    for name in ("setsid", "sleep"):
        (bare / name).symlink_to(str(shutil.which(name)))
    processes = Processes({"PATH": str(bare)})
    without = payload(await launch(bare_machine(), processes))["message"]
    assert f"{PAGE}, could not be opened" in without
    script(bare / "xdg-open", f'echo "$1" >"{opened}"\n')
    assert "was opened in the browser" in payload(await launch(bare_machine(), processes))["message"]
    assert opened.read_text() == PAGE + "\n"
    script(bare / "xdg-open", "exit 4\n")
    assert "could not be opened" in payload(await launch(bare_machine(), processes))["message"]


async def test_without_a_download_page_one_with_the_steps_is_written_and_opened(tmp_path: Path) -> None:
    starts, own = Starts(), tmp_path / "desktop-setup.html"
    found = payload(await launch(bare_machine(), starts, page=None, own_page=str(own)))
    assert starts.commands == [(command_to_open("linux", str(own)), False)]
    assert "A page with the setup steps was opened" in found["message"]
    assert "npm run dev" in own.read_text()
    away = payload(await launch(bare_machine(), Starts(), page=None, own_page=str(tmp_path / "gone" / "page.html")))
    assert "could not be opened" in away["message"]
