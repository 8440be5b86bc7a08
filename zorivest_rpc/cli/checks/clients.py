"""The clients on this machine: is our entry there, does what it starts answer, does the list fit the client's limit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from zorivest_rpc import __version__
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.terminal import session_as
from zorivest_rpc.clients import files
from zorivest_rpc.clients.edit import entries_in
from zorivest_rpc.clients.entries import CLIENTS, Client, is_our_command, is_ours, launch_of
from zorivest_rpc.clients.places import locate
from zorivest_rpc.clients.refusal import ClientFileRefused
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError

from .line import Line, fail, ok, warn
from .web import ask, render_url

__all__ = ["ClientTrial", "set_up", "try_out"]

PATIENCE = 5.0
_NOWHERE = "http://127.0.0.1:9"  # a trial asks for `initialize` alone; it must not start a backend
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "zorivest-rpc-doctor", "version": __version__},
    },
}


class ClientTrial(NamedTuple):
    """What a command did with `initialize`."""

    version: str | None
    problem: str = ""


def set_up(environ: Mapping[str, str], data_dir: str | None = None, patience: float = PATIENCE) -> Iterator[Line]:
    """One line or more for each client that is there; one for none at all.

    `data_dir` is the journal that was looked at; an entry that would use another one is a finding."""
    tried: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ClientTrial] = {}
    entries = 0
    absent = []
    for client in CLIENTS:
        path = locate(client.id, environ)
        area = f"client {client.id}"
        try:
            data = files.read(path).data
            servers = entries_in(client, data)
        except ClientFileRefused as refused:
            yield fail(area, f"{path}: {refused.problem}{f' ({refused.where})' if refused.where else ''}", refused.next)
            continue
        if data is None:
            absent.append(client.id)
            continue
        if client.strict and not _plain_json(data):
            text = f"{path} has comments or trailing commas, and {client.title} reads plain JSON"
            yield warn(area, text, "Take them out, or none of its servers may start.")
        ours = {name: entry for name, entry in servers.items() if name == "zorivest" or _by_command(entry)}
        if not ours:
            yield ok(area, f"no entry in {path}; zorivest-rpc install {client.id} adds it")
        for name, entry in ours.items():
            entries += 1
            yield from _check_entry(client, area, path, name, entry, environ, tried, patience)
            if data_dir is not None and (other := _other_journal(entry, environ, data_dir)):
                text = f'"{name}" may use the journal in {other}, and not the one in {data_dir}'
                yield warn(area, text, f"zorivest-rpc install {client.id} writes the directory into the entry.")
    if absent:
        yield ok("clients", f"no file of {', '.join(absent)}")
    if not entries:
        yield warn("clients", "none has an entry for this server", "zorivest-rpc install CLIENT, for example cursor.")


def _plain_json(data: bytes) -> bool:
    try:
        json.loads(data or b"{}")
    except ValueError:
        return False
    return True


def _other_journal(entry: Any, environ: Mapping[str, str], data_dir: str) -> str | None:
    """Where an entry that names no directory finds its journal, if the variables of this terminal do not reach it."""
    launch = launch_of(entry)
    if launch is None or launch.url or not is_our_command(launch.command):
        return None
    words = _options(launch.command)
    if any(word.partition("=")[0] in ("--data-dir", "--config", "--api-url") for word in words):
        return None
    home = {name: environ[name] for name in ("HOME", "USERPROFILE", "LOCALAPPDATA") if name in environ}
    try:
        settings = parse("stdio", words, {**home, **_variables(entry)})
    except ConfigError:
        return None  # told where its options are looked at
    return settings.data_dir if settings.data_dir != data_dir and not settings.api_url else None


def _options(command: tuple[str, ...]) -> tuple[str, ...]:
    """What follows the program's own name."""
    words = command[3:] if command[1:2] == ("-m",) else command[1:]
    return words[1:] if words[:1] == ("stdio",) else words


def _by_command(entry: Any) -> bool:
    launch = launch_of(entry)
    return launch is not None and not launch.url and is_ours(entry)


def _check_entry(
    client: Client,
    area: str,
    path: str,
    name: str,
    entry: Any,
    environ: Mapping[str, str],
    tried: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ClientTrial],
    patience: float,
) -> Iterator[Line]:
    again = f"zorivest-rpc install {client.id}" + ("" if name == "zorivest" else f" --name {name}")
    launch = launch_of(entry)
    if launch is None or not is_ours(entry):
        text = f'"{name}" in {path} starts another program, or none'
        yield fail(area, text, f"Rename or remove that entry, then {again}.")
        return
    if entry.get("disabled") is True or entry.get("enabled") is False:
        yield warn(area, f'"{name}" in {path} is switched off', f"Switch it on in {client.title}.")
    if launch.url:
        yield _answers(area, name, launch.url)
        return
    program = launch.command[0]
    if not is_our_command(launch.command):
        yield ok(area, f'"{name}" in {path} starts us through {os.path.basename(program)}; not tried')
        return
    if not (os.path.isfile(program) if os.path.dirname(program) else shutil.which(program)):
        yield fail(area, f'"{name}" in {path} starts {program}, which is not there', f"{again} writes the right path.")
        return
    extra = _variables(entry)
    environment = {**environ, **extra}
    key = (launch.command, tuple(sorted(extra.items())))
    if key not in tried:
        tried[key] = try_out(launch.command, environment, patience)
    trial = tried[key]
    if trial.version is None:
        text = f'"{name}" in {path}: {program} {trial.problem}'
        yield fail(area, text, f"Run it in a terminal to see why; {again} writes a working command.")
        return
    yield ok(area, f'"{name}" in {path} answers, version {trial.version}')
    if trial.version != __version__:
        text = f'"{name}" starts version {trial.version}, this is {__version__}'
        yield warn(area, text, f"{again} makes it start this one.")
    yield from _fits(client, area, name, launch.command, environment)


def _answers(area: str, name: str, url: str) -> Line:
    """Whether a server is there; which key it wants is between it and the client."""
    try:
        parts = urlsplit(url)
        health = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "/health", "", ""))
    except ValueError:
        return fail(area, f'"{name}" has an address that is none', "Write it again: zorivest-rpc install.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return fail(area, f'"{name}" has an address that is none', "Write it again: zorivest-rpc install.")
    answer = ask(health, timeout=PATIENCE)
    if answer is None:
        return fail(area, f'"{name}": nothing answers at {render_url(url)}', "Start it: zorivest-rpc serve")
    if answer.status != 200:
        return warn(
            area, f'"{name}": {render_url(url)} answers, but not as zorivest-rpc serve', "Look at who listens there."
        )
    return ok(area, f'"{name}": {render_url(url)} answers')


def _fits(client: Client, area: str, name: str, command: tuple[str, ...], environ: Mapping[str, str]) -> Iterator[Line]:
    """The list that this entry's options give, against the client's limit."""
    try:
        journal = Journal(parse("stdio", _options(command), environ))
        session = session_as(journal, client.id)
    except ConfigError as error:
        yield fail(area, f'"{name}": {error}', "Correct the entry's options.")
        return
    except ExceptionGroup:
        return  # the schema files' own lines tell
    count, limit = len(journal.audience.visible_tools(session)), journal.audience.profile(session).traits.tool_limit
    if limit and count > limit:
        text = f'"{name}" lists {count} tools, and {client.title} takes {limit}'
        next = f"Choose fewer: zorivest-rpc install {client.id} -- --toolsets core (tool_search finds the others)."
        yield warn(area, text, next)


def _variables(entry: Mapping[str, Any]) -> dict[str, str]:
    for key in ("env", "environment"):
        if isinstance(entry.get(key), Mapping):
            return {str(name): value for name, value in entry[key].items() if isinstance(value, str)}
    return {}


def try_out(command: tuple[str, ...], environ: Mapping[str, str], patience: float = PATIENCE) -> ClientTrial:
    """Start it as a client would, and wait for the answer to `initialize`."""
    environment = {**environ, "ZORIVEST_API_URL": _NOWHERE}
    environment.pop("ZORIVEST_API_KEY", None)
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        ) as process:
            try:
                said, _ = process.communicate(json.dumps(_HELLO).encode() + b"\n", patience)
            except subprocess.TimeoutExpired:
                process.kill()
                return ClientTrial(None, f"did not answer within {patience:g} s")
    except OSError as exc:
        return ClientTrial(None, f"cannot be started: {exc.strerror or 'unknown reason'}")
    for line in said.splitlines():
        try:
            return ClientTrial(str(json.loads(line)["result"]["serverInfo"]["version"])[:40])
        except (ValueError, KeyError, TypeError):
            continue
    return ClientTrial(None, f"ended without an answer (exit code {process.returncode})")
