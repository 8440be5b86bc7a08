"""What surrounds the program: misspelt variables, a key with quotes around it, proxies, another installation."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from urllib.parse import urlsplit

from zorivest_rpc.config import OPTIONS

from .line import Line, fail, ok, warn

__all__ = ["api_key_form", "backend_port", "installation", "proxies", "transport", "variables"]

_OTHERS = (
    *("ZORIVEST_API_KEY", "ZORIVEST_BACKEND_PORT", "ZORIVEST_DEVTOOLS_KEY", "ZORIVEST_GUI_PATH", "ZORIVEST_KEYRING"),
    *("ZORIVEST_TELEMETRY", "ZORIVEST_TELEMETRY_CAPTURE_CONTENT", "ZORIVEST_CLIENT_ID", "CLIENTS_CONFIG"),
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def variables(environ: Mapping[str, str]) -> Iterator[Line]:
    """Names that begin like ours and are none: what they were meant to set is not set."""
    known = [*(option.variable for option in OPTIONS), *_OTHERS]
    for name in sorted(environ):
        if name.startswith("ZORIVEST_") and name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield warn("variables", f"{name} means nothing here{meant}", "Correct its name, or unset it.")


def api_key_form(environ: Mapping[str, str], *, embedded: bool) -> Iterator[Line]:
    """A key that was pasted with something around it fails as unknown, which sends people looking elsewhere."""
    key = environ.get("ZORIVEST_API_KEY")
    if not key:
        return
    if key != key.strip() or key.strip()[:1] in "\"'" or key.lower().startswith("bearer "):
        text = "ZORIVEST_API_KEY has a space, a quote or the word Bearer around the key"
        yield fail("key", text, "Set it to the key alone.")
    elif embedded and (not key.startswith("zrv_sk_") or len(key) != 39):
        text = "ZORIVEST_API_KEY does not look like a key of an embedded journal (zrv_sk_ and 32 characters)"
        yield fail("key", text, "Copy it again, or unset the variable to use the stored key.")


def backend_port(environ: Mapping[str, str], *, running: bool) -> Iterator[Line]:
    """A port that was chosen for the embedded backend does not give way to another one, so it has to be free."""
    text = environ.get("ZORIVEST_BACKEND_PORT", "")
    if not text:
        return
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        yield fail("variables", "ZORIVEST_BACKEND_PORT is not a port", "Set it to a number up to 65535, or unset it.")
        return
    if running or text == "0":
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the backend itself does
        try:
            probe.bind(("127.0.0.1", int(text)))
        except OSError as exc:
            words = f"the backend is to listen on {text} (ZORIVEST_BACKEND_PORT), and cannot: {exc.strerror}"
            yield fail("backend", words, "Unset the variable: then any free port will do.")


def proxies(environ: Mapping[str, str], api_url: str | None) -> Iterator[Line]:
    """We ask directly; a client that does not may lose its way to 127.0.0.1."""
    found = [name for name in _PROXIES if environ.get(name) or environ.get(name.lower())]
    if not found:
        return
    excepted = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").replace(" ", "").split(",")
    names = " and ".join(found)
    host = urlsplit(api_url).hostname if api_url else None
    if host is not None and host not in _LOOPBACK:
        text = f"{names} is set, and {host} is asked directly all the same"
        yield warn("proxy", text, "If only the proxy reaches it, tunnel to it and name the tunnel's address.")
    elif not {"*", "127.0.0.1", "localhost"} & set(excepted):
        text = f"{names} is set without an exception for this machine; clients may send 127.0.0.1 to the proxy"
        yield warn("proxy", text, "Set NO_PROXY=127.0.0.1,localhost where the client is started.")
    else:
        yield ok("proxy", f"{names} is set, with an exception for this machine; market data is asked for directly")


def transport(api_url: str) -> Iterator[Line]:
    """A key that crosses a network in clear is everybody's."""
    try:
        parts = urlsplit(api_url)
        host = parts.hostname
    except ValueError:
        return  # the address' own line tells
    if parts.scheme == "http" and host is not None and host not in _LOOPBACK and not host.startswith("127."):
        text = f"the key goes to {host} without encryption (http)"
        yield warn("transport", text, "Use https, or a tunnel that ends on this machine.")


def installation(environ: Mapping[str, str], prefix: str | None = None) -> Iterator[Line]:
    """The command that a terminal finds, if it is of another installation than this one."""
    command = shutil.which("zorivest-rpc", path=environ.get("PATH", ""))
    if command is None:
        return
    here = os.path.realpath(prefix or sys.prefix)
    there = os.path.dirname(os.path.dirname(os.path.realpath(command)))
    if os.path.realpath(os.path.dirname(os.path.dirname(command))) != here and there != here:
        text = f"zorivest-rpc on your PATH is {command}, and this is the one of {here}"
        yield warn("installation", text, "Uninstall one of them, or put the one you mean first on the PATH.")
