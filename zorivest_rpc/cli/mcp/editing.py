"""`zorivest-rpc mcp add` and `mcp remove`: one server put into, or taken out of, the configuration file.

The file is spliced, not printed anew: comments, order and every other byte stay. It is read back before it is written,
and has to mean what it meant with one server more or less."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from zorivest_rpc.cli.mcp.listing import built_in_names
from zorivest_rpc.cli.words import Words
from zorivest_rpc.clients import files, toml
from zorivest_rpc.clients.apply import Done as Change
from zorivest_rpc.clients.apply import show_change, until_still
from zorivest_rpc.clients.inline_secrets import command_holds_secret, url_holds_secret
from zorivest_rpc.clients.refusal import ClientFileRefused
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import ConfigFileRefused, own_path, trust
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.config import check_profiles

__all__ = ["Target", "add_entries", "entries_of", "run_add", "run_remove", "target_of", "tell_change"]

Entry = dict[str, Any]


class Target(NamedTuple):
    """The file that is changed and the profile in it; `trust_dir` where the file has to be trusted again afterwards."""

    path: str
    profile: str
    trust_dir: str | None


def run_add(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else len(argv)
    command = argv[split + 1 :]
    words = _words(argv[:split], flags=("--url", "--auth-bearer-env", "--timeout-secs"), repeated=("--env-pass",))
    name = _only_word(words, "mcp add")
    url = words.flags.get("--url")
    if (url is None) == (not command):
        raise ConfigError("mcp add", "takes either --url URL or -- COMMAND ARGS…")
    entry: Entry = {"name": name}
    if url is not None:
        entry["endpoint"] = url
    else:
        entry |= {"command": command[0]} | ({"args": command[1:]} if command[1:] else {})
    if seconds := words.flags.get("--timeout-secs"):
        if not seconds.isascii() or not seconds.isdigit():
            raise ConfigError("--timeout-secs", f"{seconds!r} is not a whole number")
        entry["timeout_secs"] = int(seconds)
    if variable := words.flags.get("--auth-bearer-env"):
        entry["auth_bearer_env"] = variable
    if passed := words.repeated["--env-pass"]:
        entry["env_pass"] = passed
    target = target_of(parse("mcp", words.options))
    code = _report(words, "added", name, lambda dry_run: add_entries(target, [entry], dry_run=dry_run))
    if code == 0 and (url_holds_secret(url) if url is not None else command_holds_secret(command)):
        place, instead = ("address", "--auth-bearer-env") if url is not None else ("command", "--env-pass")
        text = f"its {place} looks like it holds a secret, which stands in the file now; name a variable with {instead}"
        print(f'zorivest-rpc: "{name}": {text} if the server takes one', file=sys.stderr)
    return code


def run_remove(argv: list[str]) -> int:
    words = _words(argv)
    name = _only_word(words, "mcp remove")
    target = target_of(parse("mcp", words.options))
    return _report(words, "removed", name, lambda dry_run: _remove(target, name, dry_run=dry_run))


def target_of(settings: Settings) -> Target:
    """The file that counts, or else the user's own. One of the working directory that was trusted stays so: what we
    write into it is the user's own wish."""
    path = settings.file.path if settings.file else own_path(os.environ)
    is_local = settings.trust_dir is not None and settings.untrusted is None and settings.file is not None
    return Target(path, settings.profile or "default", settings.trust_dir if is_local else None)


def entries_of(target: Target, data: bytes | None) -> list[Entry]:
    """The servers of the profile as they stand in the file."""
    document = toml.parse((data or b"").decode("utf-8-sig"))
    profiles = document.get("profiles", {})
    table = profiles.get(target.profile, {}) if isinstance(profiles, Mapping) else {}
    servers = table.get("mcp_servers", []) if isinstance(table, Mapping) else []
    return [server for server in servers if isinstance(server, dict)]


def add_entries(target: Target, entries: Sequence[Entry], *, dry_run: bool) -> Change:
    """The file with these servers at its end; those that it has already stay as they are."""

    def change(text: str, data: bytes | None) -> str:
        present = {server.get("name"): server for server in entries_of(target, data)}
        for entry in entries:
            known = present.get(entry["name"])
            if known is None:
                text = toml.append_entry(text, ("profiles", target.profile, "mcp_servers"), entry)
            elif known != entry:
                advice = f'Run "zorivest-rpc mcp remove {entry["name"]}" first, or change the file by hand.'
                raise ClientFileRefused(f'it has another server "{entry["name"]}"', advice, target.path)
        return text

    return _change(target, change, "added", dry_run)


def _remove(target: Target, name: str, *, dry_run: bool) -> Change:
    def change(text: str, data: bytes | None) -> str:
        names = [server.get("name") for server in entries_of(target, data)]
        if name not in names:
            return text
        return toml.remove_entry(text, ("profiles", target.profile, "mcp_servers"), names.index(name))

    return _change(target, change, "removed", dry_run)


def _change(target: Target, change: Callable[[str, bytes | None], str], status: str, dry_run: bool) -> Change:
    def once(file: files.ConfigFile) -> Change:
        before = (file.data or b"").decode()
        after = change(before, file.data)
        if after == before:
            return Change("unchanged", target.path, None, "")
        _prove(target, before, after)
        backup = files.backup_path(file.path, "mcp") if file.data is not None else None
        done = Change(status, target.path, backup, show_change(target.path, file.data, after.encode()))
        if not dry_run:
            files.replace(file, after.encode(), backup)
            if target.trust_dir is not None:
                from hashlib import sha256

                trust(target.path, sha256(after.encode()).hexdigest(), target.trust_dir)
        return done

    return until_still(target.path, once)


def _prove(target: Target, before: str, after: str) -> None:
    """The new file is sound, and means the old one with other servers in this profile alone."""
    old, new = toml.parse(before), toml.parse(after)
    problems = check_profiles(new.get("profiles"), built_in_names())
    if problems:
        raise ConfigFileRefused(target.path, problems)
    if _without_servers(old, target.profile) != _without_servers(new, target.profile):
        raise ClientFileRefused("our edit would change something else", "Nothing was changed; edit it by hand.")


def _without_servers(document: dict[str, Any], profile: str) -> dict[str, Any]:
    """The document less the servers of the profile, and less the tables around them that hold nothing else."""
    profiles = {
        name: {key: value for key, value in table.items() if not (name == profile and key == "mcp_servers")}
        for name, table in document.get("profiles", {}).items()
    }
    kept = {name: table for name, table in profiles.items() if table or name != profile}
    rest = {key: value for key, value in document.items() if key != "profiles"}
    return {**rest, "profiles": kept}


def _words(argv: list[str], flags: Sequence[str] = (), repeated: Sequence[str] = ()) -> Words:
    return Words(argv, flags=flags, switches=("--json", "--dry-run"), repeated=repeated)


def _only_word(words: Words, command: str) -> str:
    if len(words.words) != 1:
        raise ConfigError(command, f"takes one NAME, found {len(words.words)}")
    return words.words[0]


def _report(words: Words, verb: str, name: str, act: Callable[[bool], Change]) -> int:
    dry_run = "--dry-run" in words.switches
    try:
        done = act(dry_run)
    except ClientFileRefused as refused:
        if words.json:
            from zorivest_rpc.cli.terminal import print_json

            facts = {"schema": "zorivest.mcp.edit.v1", "name": name, "status": "refused", "where": refused.where}
            print_json({**facts, "problem": refused.problem, "next": refused.next})
        else:
            print(f"zorivest-rpc: {refused}", file=sys.stderr)
        return 1
    if words.json:
        from zorivest_rpc.cli.terminal import print_json

        facts = {"schema": "zorivest.mcp.edit.v1", "name": name, "status": done.status, "file": done.file}
        print_json({**facts, "backup": done.backup, "dry_run": dry_run, "diff": done.diff})
    else:
        tell_change(done, f'"{name}"', verb, dry_run)
    return 0


def tell_change(done: Change, what: str, verb: str, dry_run: bool) -> None:
    """What was done to the file, or would be."""
    if done.status == "unchanged":
        print(f"nothing to change for {what} in {done.file}")
    elif dry_run:
        print(done.diff)
        print(f"{what} would be {verb} in {done.file}; nothing was written")
    else:
        print(f"{what} {verb} in {done.file}")
        if done.backup:
            print(f"The file as it was: {done.backup}")
