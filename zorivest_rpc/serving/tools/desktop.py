"""The desktop application: where it is, the command that starts it free of this process, and what to say without it.

Finding and the commands are pure functions of a `Machine`, so every platform can be tested on any. A path is never
part of a command's text where the platform allows an argument, and nothing in a command comes from a tool's input."""

from __future__ import annotations

import asyncio
import ntpath
import posixpath
import re
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.tools.kit import Kit, flag_error

__all__ = [
    "Command",
    "Desktop",
    "DesktopProgram",
    "Machine",
    "Processes",
    "command_for",
    "command_to_open",
    "find",
    "machine",
]

System: TypeAlias = Literal["windows", "macos", "linux"]
Method: TypeAlias = Literal["installed", "dev", "path", "env"]

_GUI_VARIABLE: Final = "ZORIVEST_GUI_PATH"
_KEPT_BACK: Final = ("ZORIVEST_API_KEY",)  # the application has its own way to unlock
_INSTALLED_BELOW: Final = frozenset(("site-packages", "dist-packages"))
_RUNNABLE: Final = '[ -x "$0" ] || exit 126; '  # in the background its failure would go unnoticed
_NOT_RUNNABLE: Final = 126
# In the background, and looked at once more after a second: a program that dies at once takes its exit code along.
_QUIET: Final = ">/dev/null 2>&1 </dev/null & p=$!; sleep 1; kill -0 $p 2>/dev/null && exit 0; wait $p"
_UNQUOTABLE: Final = re.compile(r'["%\r\n\0]')  # cmd.exe expands or ends on these even between quotes
_LOOK_AGAIN: Final = 0.5
_LAUNCH_SECONDS: Final = 10.0


class Machine(msgspec.Struct, frozen=True):
    """What finding depends on. `exists` and `which` are the file system's part of it."""

    system: System
    exists: Callable[[str], bool]
    which: Callable[[str], str | None]
    server_directory: str
    local_app_data: str = ""
    program_files: str = ""
    gui_path: str = ""


class DesktopProgram(msgspec.Struct, frozen=True):
    """`path` is an executable, an application bundle, or for `dev` the directory of its sources."""

    path: str
    method: Method


class Command(msgspec.Struct, frozen=True):
    """Exactly one of the two: `argv` is run as it is, `shell` by the platform's command interpreter."""

    argv: tuple[str, ...] = ()
    shell: str = ""
    directory: str | None = None


def machine(
    platform: str,
    environ: Mapping[str, str],
    server_directory: str,
    *,
    exists: Callable[[str], bool],
    which: Callable[[str], str | None],
) -> Machine:
    """The facts from `sys.platform` and an environment."""
    return Machine(
        system={"win32": "windows", "darwin": "macos"}.get(platform, "linux"),  # type: ignore[arg-type]
        exists=exists,
        which=which,
        server_directory=server_directory,
        local_app_data=environ.get("LOCALAPPDATA", ""),
        program_files=environ.get("ProgramFiles", environ.get("PROGRAMFILES", "")),
        gui_path=environ.get(_GUI_VARIABLE, ""),
    )


def find(on: Machine) -> DesktopProgram | None:
    """An installation, a checkout around this server, the search path, the variable: the first hit wins."""
    for path in _find_installed(on):
        if on.exists(path):
            return DesktopProgram(path, "installed")
    sources = _sources(on)
    if sources is not None:
        return DesktopProgram(sources, "dev")
    found = on.which("zorivest")
    if found:
        return DesktopProgram(found, "path")
    return DesktopProgram(on.gui_path, "env") if on.gui_path and on.exists(on.gui_path) else None


def _find_installed(on: Machine) -> Sequence[str]:
    if on.system == "windows":
        places = (
            ntpath.join(on.local_app_data, "Programs") if on.local_app_data else "",
            on.program_files,
        )
        return [ntpath.join(place, "Zorivest", "Zorivest.exe") for place in places if place]
    if on.system == "macos":
        return ["/Applications/Zorivest.app"]
    return ["/usr/bin/zorivest", "/usr/local/bin/zorivest"]


def _sources(on: Machine) -> str | None:
    """The `ui` directory of the repository that this server is run from.

    An installed server has none: whatever project its environment lies in is not ours, and is not run."""
    windows, directory = on.system == "windows", on.server_directory
    join, dirname = (ntpath.join, ntpath.dirname) if windows else (posixpath.join, posixpath.dirname)
    if not _INSTALLED_BELOW.isdisjoint(directory.replace("\\", "/").split("/")):
        return None
    while directory:
        if on.exists(join(directory, ".git")):
            ui: str = join(directory, "ui")
            return ui if on.exists(join(ui, "package.json")) else None
        above: str = dirname(directory)
        if above == directory:
            return None
        directory = above
    return None


def command_for(system: System, found: DesktopProgram, *, wait: bool = False) -> Command:
    """The command that starts what was found: detached from this process and its client, or to be waited for."""
    path = found.path
    if found.method == "dev":
        return _development(system, path, wait=wait)
    if wait:
        opens = system == "macos" and path.rstrip("/").endswith(".app")
        return Command(("open", "-W", "-a", path)) if opens else Command((path,))
    if system == "windows":
        return Command(shell=f'start "" {_quote(path)}')
    if system == "macos":
        if path.rstrip("/").endswith(".app"):
            return Command(("open", "-a", path))
        return Command(("/bin/sh", "-c", f'{_RUNNABLE}nohup "$0" {_QUIET}', path))
    return Command(("/bin/sh", "-c", f'{_RUNNABLE}setsid "$0" {_QUIET}', path))


def _development(system: System, ui: str, *, wait: bool) -> Command:
    if system == "windows":
        if wait:
            return Command(shell="npm run dev", directory=ui)
        return Command(shell=f'start "" /d {_quote(ui)} cmd.exe /c npm run dev')
    if wait:
        return Command(("npm", "run", "dev"), directory=ui)
    # a new session on Linux as well: without one the client's process group would take it along
    start = "setsid nohup" if system == "linux" else "nohup"
    return Command(("/bin/sh", "-c", f'cd "$0" && {start} npm run dev {_QUIET}', ui))


def command_to_open(system: System, page: str) -> Command:
    """The command that shows a page in the default browser."""
    if system == "windows":
        return Command(shell=f'start "" {_quote(page)}')
    if system == "macos":
        return Command(("open", page))
    return Command(("/bin/sh", "-c", f'setsid xdg-open "$0" {_QUIET}', page))


def _quote(text: str) -> str:
    if _UNQUOTABLE.search(text):
        raise ToolError(
            f"The path {text!r} cannot be given to the Windows command interpreter.",
            code="unsafe_path",
            next=f"Move the application to a path without quotes and percent signs, or set {_GUI_VARIABLE} to one.",
        )
    return f'"{text}"'


Start: TypeAlias = Callable[[Command, bool], Awaitable[None]]
"""Run a command; True: until it ends. Raises OSError if it cannot be started."""


class Processes:
    """Starts commands with nothing of ours but the environment, less what is not theirs."""

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._environ = None if environ is None else {k: v for k, v in environ.items() if k not in _KEPT_BACK}
        self._sleep = sleep
        self._left: list[subprocess.Popen[bytes]] = []  # whose waiting was cancelled; kept until they end

    async def __call__(self, command: Command, wait: bool) -> None:
        self._left = [process for process in self._left if process.poll() is None]
        process = self._open(command)  # a matter of milliseconds; in a thread, a cancelled call would lose it
        if not wait:
            await asyncio.get_running_loop().run_in_executor(None, _check_launcher, process)
            return
        try:
            while process.poll() is None:  # by looking: a call that is cancelled must not end the application
                await self._sleep(_LOOK_AGAIN)
        except asyncio.CancelledError:
            self._left.append(process)
            raise

    def _open(self, command: Command) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command.shell or command.argv,
            shell=bool(command.shell),
            cwd=command.directory,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _check_launcher(process: subprocess.Popen[bytes]) -> None:
    """A launcher ends at once; if it fails, so did the start."""
    try:
        code = process.wait(_LAUNCH_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise OSError("the launcher did not end") from None
    if code == _NOT_RUNNABLE:
        raise OSError("the file is not executable")
    if code != 0:
        raise OSError(f"it ended at once with code {code}")


class Desktop:
    """`page` is where the application can be downloaded. Without one a page with the setup steps is written to the file
    `own_page` and opened; without either no browser is."""

    def __init__(
        self, kit: Kit, on: Machine, start: Start, *, page: str | None = None, own_page: str | None = None
    ) -> None:
        self._kit = kit
        self._on = on
        self._start = start
        self._page = page
        self._own_page = own_page

    def handlers(self) -> dict[str, Handler]:
        return {"launch_gui": self.launch_gui}

    async def launch_gui(self, call: Call) -> Outcome:
        wait: bool = self._kit.arguments(call)["wait_for_close"]
        found = await asyncio.get_running_loop().run_in_executor(None, find, self._on)
        if found is None:
            return await self._report_absent(call)
        try:
            await self._start(command_for(self._on.system, found, wait=wait), wait)
        except ToolError as error:
            return self._explain_failure(found, error)
        except OSError as exc:
            why = (exc.strerror or str(exc)).lower()
            return self._explain_failure(
                found,
                ToolError(
                    f"The desktop application was found at {found.path} and could not be started: {why}.",
                    code="launch_failed",
                    next=f"Start it by hand, or set {_GUI_VARIABLE} to an executable that works.",
                ),
            )
        done = "was closed again" if wait else "was started; its window opens shortly"
        how = " from its sources with npm run dev" if found.method == "dev" else ""
        message = f"The Zorivest desktop application at {found.path} {done}{how}."
        return self._kit.give(call, {"gui_found": True, "method": found.method}, message=message)

    def _explain_failure(self, found: DesktopProgram, error: ToolError) -> Outcome:
        return flag_error({"gui_found": True, "method": found.method, "message": f"{error.text} {error.next}"}, error)

    async def _report_absent(self, call: Call) -> Outcome:
        instructions = _instructions(self._page)
        page, what = self._page, "Its download page"
        if page is None and self._own_page is not None:
            page, what = self._own_page, "A page with the setup steps"
        opened = False
        try:
            if page is not None:
                if page is not self._page:
                    await asyncio.get_running_loop().run_in_executor(None, _write_page, page, instructions)
                await self._start(command_to_open(self._on.system, page), False)
                opened = True
        except (ToolError, OSError):  # a machine without a browser still gets its instructions
            pass
        message = "The Zorivest desktop application was not found on this machine."
        if opened:
            message += f" {what} was opened in the browser."
        elif page is not None:
            message += f" {what}, {page}, could not be opened here; see setup_instructions."
        else:
            message += " See setup_instructions."
        return self._kit.give(call, {"gui_found": False, "setup_instructions": instructions}, message=message)


def _write_page(path: str, instructions: dict[str, Json]) -> None:
    """The instructions for a person to read; nothing in them comes from outside."""
    from html import escape

    app, source = instructions["desktop_app"], instructions["from_source"]
    ways = "".join(f"<li><b>{name}</b>: {escape(app[name])}</li>" for name in ("windows", "macos", "linux"))
    steps = escape("\n".join(source["steps"]))
    text = (
        '<!doctype html><meta charset="utf-8"><title>Zorivest desktop application</title>'
        f"<h1>Zorivest desktop application</h1><p>{escape(app['description'])}</p><ul>{ways}</ul>"
        f"<h2>From source</h2><p>{escape(source['description'])}</p><pre>{steps}</pre>"
        f"<p>{escape(instructions['env_hint'])}</p>"
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _instructions(page: str | None) -> dict[str, Json]:
    app: dict[str, Json] = {
        "description": "Install the desktop application.",
        "windows": "Run the installer (.exe); it installs to %LOCALAPPDATA%\\Programs\\Zorivest.",
        "macos": "Open the disk image (.dmg) and drag Zorivest to /Applications.",
        "linux": "Install the package (.deb or .rpm), or put the AppImage on the PATH under the name zorivest.",
    }
    if page is not None:
        app["url"] = page
    return {
        "desktop_app": app,
        "from_source": {
            "description": "Run it from a clone of its repository; this needs Node.js.",
            "steps": ["cd ui", "npm install", "npm run dev"],
        },
        "env_hint": f"If it is installed elsewhere, set {_GUI_VARIABLE} to the full path of the executable and "
        "restart this server.",
    }
