"""The machine: Python, the packages, the clock, and the port that `serve` wants."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from .line import Line, fail, ok, warn
from .web import ask

__all__ = ["DEPENDENCIES", "clock", "packages", "port", "python"]

OLDEST = (3, 11)
SQLCIPHER = "sqlcipher3.dbapi2"
DEPENDENCIES = {  # module -> distribution
    "aiohttp": "aiohttp",
    "orjson": "orjson",
    "msgspec": "msgspec",
    "jsonschema": "jsonschema",
    "jsonschema_rs": "jsonschema-rs",
    "sqlalchemy": "sqlalchemy",
    SQLCIPHER: "sqlcipher3",
    "argon2": "argon2-cffi",
    "cryptography.fernet": "cryptography",
    "PIL.Image": "pillow",
    "fpdf": "fpdf2",
    "numpy": "numpy",
    "tzdata": "tzdata",
    "ofxtools": "ofxtools",
    "pdfplumber": "pdfplumber",
    "defusedxml": "defusedxml",
    "cronsim": "cronsim",
    "jinja2": "jinja2",
    "aiosmtplib": "aiosmtplib",
}
_TRY = """
import importlib, sys
for name in sys.argv[1:]:
    print(name, end=" ", flush=True)
    try:
        importlib.import_module(name)
    except BaseException as exc:
        print(type(exc).__name__, flush=True)
    else:
        print("ok", flush=True)
"""


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Line:
    shown = ".".join(map(str, version))
    if version < OLDEST:
        return fail("python", f"Python {shown} is too old", "Install Python 3.11 or newer and zorivest-rpc with it.")
    return ok("python", f"Python {shown} at {sys.executable}")


def packages(encrypted_journal: bool, environ: Mapping[str, str] | None = None) -> Iterator[Line]:
    """Every dependency is imported, in a process of its own: a broken one can end a whole interpreter."""
    found = dict.fromkeys(DEPENDENCIES, "not tried: an import before it ended Python")
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-W", "ignore", "-c", _TRY, *DEPENDENCIES],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=None if environ is None else dict(environ),
        )
        said = ran.stdout
    except subprocess.TimeoutExpired as exc:
        said = exc.stdout.decode(errors="replace") if isinstance(exc.stdout, bytes) else exc.stdout or ""
    except OSError as exc:
        yield fail("packages", f"Python cannot be started: {exc.strerror}", "Install zorivest-rpc again.")
        return
    for line in said.splitlines():
        name, _, outcome = line.partition(" ")
        if name in found:
            found[name] = outcome.strip() or "its import ended Python or never came back"
    missing = {name: outcome for name, outcome in found.items() if outcome != "ok"}
    if SQLCIPHER in missing:
        yield _sqlcipher(missing.pop(SQLCIPHER), encrypted_journal)
    for name, outcome in missing.items():
        yield fail(
            "packages",
            f"{DEPENDENCIES[name]} cannot be imported ({outcome})",
            f"{sys.executable} -m pip install --force-reinstall {DEPENDENCIES[name]}",
        )
    if not missing:
        yield ok("packages", f"{sum(outcome == 'ok' for outcome in found.values())} packages import")


def _sqlcipher(outcome: str, encrypted_journal: bool) -> Line:
    install = f"{sys.executable} -m pip install sqlcipher3"
    if encrypted_journal:
        text = f"SQLCipher cannot be imported ({outcome}), and the journal is encrypted with it"
        return fail("packages", text, f"{install}; without it the journal cannot be opened.")
    return warn(
        "packages",
        f"SQLCipher cannot be imported ({outcome}): the embedded journal is NOT encrypted",
        f"{install} before the first start; a journal that is there already stays as it is.",
    )


def clock(known_past: Mapping[str, float], now: float | None = None) -> Line:
    """Sessions and keys expire by the clock, so one that is behind makes everything expired or eternal."""
    now = time.time() if now is None else now
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    for what, moment in known_past.items():
        if moment > now + 120:
            late = f"{(moment - now) / 3600:.1f} hours" if moment - now > 7200 else f"{(moment - now) / 60:.0f} minutes"
            return fail(
                "clock",
                f"The clock says {shown}, {late} before {what}",
                "Set the clock, and switch its synchronisation on (timedatectl set-ntp true).",
            )
    return ok("clock", shown)


def port(number: int) -> Line:
    """Whether `serve` could listen, and who else does."""
    try:
        with socket.create_connection(("127.0.0.1", number), 1.0):
            pass
    except ConnectionRefusedError:
        return ok("port", f"{number} is free for zorivest-rpc serve")
    except OSError as exc:
        return warn("port", f"{number} cannot be tried: {exc.strerror or 'no answer'}", "Look at the firewall's rules.")
    who = _listener(number)
    answer = ask(f"http://127.0.0.1:{number}/health", timeout=2.0)
    if answer is not None and isinstance(answer.body, dict) and answer.body.get("status") == "ok":
        version = answer.body.get("version", "unknown")
        return ok("port", f"{number}: a server answers, version {version}{who}")
    return warn("port", f"{number} is taken by another program{who}", "zorivest-rpc serve --port 0 picks a free one.")


def _listener(number: int) -> str:
    """The process behind a port, where the system shows it."""
    inode = None
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for row in Path(table).read_text().splitlines()[1:]:
                cells = row.split()
                if cells[3] == "0A" and int(cells[1].rpartition(":")[2], 16) == number:
                    inode = cells[9]
    if inode is None:
        return ""
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(link) == f"socket:[{inode}]" for link in (directory / "fd").iterdir()):
                return f" ({(directory / 'comm').read_text().strip()}, pid {directory.name})"
    return ""
