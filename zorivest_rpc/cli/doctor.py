"""`zorivest-rpc doctor`: everything that can be wrong with a set-up, and what to do about it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from zorivest_rpc.cli.checks import journal, machine, safekeeping, surroundings, upstreams
from zorivest_rpc.cli.checks.line import Line, fail, ok
from zorivest_rpc.cli.words import Words, uses_colour
from zorivest_rpc.config import Settings, parse, usage
from zorivest_rpc.errors import ConfigError

if TYPE_CHECKING:
    from zorivest_rpc.cli.checks.backend import Credential

__all__ = ["examine", "run"]

_WIDTH = 80
_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}
_LOOKS_SECRET = re.compile(r"zrv_sk_[\w-]*|(?<=://)[^/\s@]+(?=@)|(?<=Bearer )\S+")
_OWN = """
  --as CLIENT
      whether the list fits this client, such as cursor or claude-code
  --tenant ID
      of a server with several clients: the backend of this one
  --start
      start the embedded backend if it does not run, and look at it
  --json
      print JSON for programs"""


def run(argv: list[str]) -> int:
    """Exit code 0 if nothing fails, 1 otherwise, 2 misused."""
    if "--help" in argv or "-h" in argv:
        print(usage("doctor") + _OWN)
        return 0
    words = Words(argv, flags=("--as", "--tenant"), switches=("--json", "--start"))
    settings, wrong = _settings([*words.words, *words.options], os.environ)
    start, client = "--start" in words.switches, words.flags.get("--as")
    tenant = words.flags.get("--tenant")
    lines = list(examine(settings, wrong, os.environ, start=start, client=client, tenant=tenant))
    secrets = _secrets(settings, os.environ, tenant)
    lines = [line._replace(text=_clean(line.text, secrets), next=_clean(line.next, secrets)) for line in lines]
    failed = sum(line.status == "fail" for line in lines)
    if words.json:
        print(
            json.dumps({"ok": not failed, "checks": [line._asdict() for line in lines]}, indent=2, ensure_ascii=False)
        )
    else:
        _print(lines, failed)
    return 1 if failed else 0


def examine(
    settings: Settings,
    wrong: list[Line],
    environ: Mapping[str, str],
    *,
    start: bool = False,
    client: str | None = None,
    tenant: str | None = None,
) -> Iterator[Line]:
    """Every finding, in the order in which a user would mend them."""
    yield machine.python()
    yield from surroundings.installation(environ)
    yield from surroundings.variables(environ)
    damaged, vault = journal.read_bootstrap(settings.data_dir)
    packages = list(machine.packages(vault is not None and vault.encrypted))
    yield from packages
    yield from wrong
    usable = not any(line.status == "fail" for line in packages)
    if usable:
        yield from journal.schemas()
        if not wrong:
            yield from journal.check_offer(settings, client)
            yield from upstreams.profile(settings, environ)
    credential: Credential | None = None
    if usable and not wrong and (tenant is not None or settings.tenant_sources):
        from zorivest_rpc.cli.checks import tenants

        yield from tenants.check_tenants(settings, environ)
        if tenant is not None:
            settings, environ, line, credential = tenants.aim_at(settings, environ, tenant)
            yield line
            damaged, vault = journal.read_bootstrap(settings.data_dir)
    past = {"this program was installed": os.stat(__file__).st_mtime}
    if vault is not None and vault.created is not None:
        past["this journal's newest key was made"] = vault.created
    yield machine.clock(past)
    yield from _directory(settings.data_dir, damaged, has_journal=tenant is not None or not settings.tenant_sources)
    yield from surroundings.api_key_form(environ, embedded=not settings.api_url)
    yield from surroundings.proxies(environ, settings.api_url)
    if not usable:
        yield fail("backend", "not looked at, and no client either, while packages are missing", "Install those first.")
        return
    from zorivest_rpc.cli.checks import clients

    if settings.tenant_sources and tenant is None:
        yield ok("backend", "each client has its own; zorivest-rpc doctor --tenant ID looks at one")
    elif settings.api_url or damaged is None:
        yield from _backend(settings, vault, environ, credential, start=start)
    yield machine.port(_port(settings, environ))
    yield from clients.set_up(environ, None if settings.api_url else settings.data_dir)


def _directory(data_dir: str, damaged: Line | None, *, has_journal: bool) -> Iterator[Line]:
    yield from journal.directory(data_dir)
    yield from journal.private_files(data_dir)
    yield from safekeeping.place(data_dir)
    if damaged is not None:
        yield damaged
    if has_journal:
        yield from safekeeping.together(data_dir)
        yield from safekeeping.backups(data_dir)


def _backend(
    settings: Settings,
    vault: journal.Bootstrap | None,
    environ: Mapping[str, str],
    credential: Credential | None,
    *,
    start: bool,
) -> Iterator[Line]:
    from zorivest_rpc.cli.checks import backend

    if settings.api_url:
        yield from surroundings.transport(settings.api_url)
        yield from backend.remote(settings, environ, credential)
    else:
        yield from backend.check_embedded(settings, vault, environ, start=start)


def _settings(argv: list[str], environ: Mapping[str, str]) -> tuple[Settings, list[Line]]:
    """The options; wrong words on the command line are misuse, a wrong variable or file is a finding."""
    bare = {name: value for name, value in environ.items() if not name.startswith("ZORIVEST_")}
    kept = {name: environ[name] for name in ("ZORIVEST_DATA_DIR", "ZORIVEST_API_URL") if name in environ}
    try:
        return parse("doctor", argv, environ), []
    except ConfigError as error:
        if any(error.source == word.partition("=")[0] for word in argv):
            raise
        next = "Correct the variable or the file that it names."
        without = [word for word in argv if not word.startswith("--config=")]
        if "--config" in without:
            position = without.index("--config")
            without = without[:position] + without[position + 2 :]
        # Without an empty file in its place the one in the user's configuration directory would be found again.
        findings = [fail("options", line, next) for line in str(error).splitlines()]
        return parse("doctor", [*without, "--config", os.devnull], {**bare, **kept}), findings


def _port(settings: Settings, environ: Mapping[str, str]) -> int:
    try:
        return parse("serve", ["--config", settings.config] if settings.config else [], environ).port or 8766
    except ConfigError:
        return 8766


def _secrets(settings: Settings, environ: Mapping[str, str], tenant: str | None) -> list[str]:
    """What must not be printed whatever a check or another program says: the keys at hand."""
    known = [environ.get("ZORIVEST_API_KEY", "")]
    for name in ("api.key", "serve.key"):
        try:
            known.append((Path(settings.data_dir) / name).read_text().strip())
        except (OSError, UnicodeDecodeError):
            continue
    if settings.tenant_sources:
        with contextlib.suppress(ImportError):  # then no tenant was looked at either
            from zorivest_rpc.cli.checks import tenants

            known += tenants.secrets_of(settings, environ, tenant)
    return [secret for secret in known if len(secret) > 3]


def _clean(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "…")
    return _LOOKS_SECRET.sub("…", text)


def _print(lines: list[Line], failed: int) -> None:
    colours = uses_colour()
    for line in lines:
        mark = f"{line.status:4}"
        if colours:
            mark = f"\x1b[{_COLOURS[line.status]}m{mark}\x1b[0m"
        wrapped = textwrap.wrap(f"{line.area}: {line.text}", _WIDTH - 6, break_long_words=False, break_on_hyphens=False)
        print(f"{mark}  " + "\n      ".join(wrapped))
        if line.next:
            print("      → " + "\n        ".join(_step(line.next)))
    warned = sum(line.status == "warn" for line in lines)
    print(f"\n{len(lines)} checks, {failed} failed, {warned} to look at.")


def _step(text: str) -> list[str]:
    """Sentences are wrapped; a command (it ends without a full stop) stays on one line, to be copied."""
    if not text.endswith("."):
        return [text]
    return textwrap.wrap(text, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
