"""`zorivest-rpc tenants`: the clients of one server, and the keys that open them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["run"]

FORMS: Final = """\
usage: zorivest-rpc tenants check [--json]
       zorivest-rpc tenants pack FILE
       zorivest-rpc tenants add ID (--embedded | --url URL --key-env NAME) [--name TEXT]
       zorivest-rpc tenants grant --clients (a,b | '*') --name NAME [--seat ROLE]
       zorivest-rpc tenants revoke --name NAME

  check   the clients, where their backends are and which of their secrets are set, never a value
  pack    print a tenants file as one line for CLIENTS_CONFIG; that is shorter, and no protection
  add     write a client into the tenants file; a secret is named by its variable
  grant   make an access key, print it once, and write its hash into the tenants file
  revoke  take an access key out again

The file is the one of --tenants-file or ZORIVEST_TENANTS_FILE. Where CLIENTS_CONFIG is set instead, which
cannot be written, add, grant and revoke say what to change in it."""
OWN: Final = """\
  --embedded
      add: an embedded backend of its own, below the data directory
  --url URL
      add: the address of its Zorivest REST API
  --key-env NAME
      add: the variable that holds its API key
  --clients a,b
      grant: what the key opens; * for all clients
  --name TEXT
      add: what people call it; grant, revoke: whose key it is
  --seat none|read-only|read-write|admin
      grant: the most that a person may do in the console with it (default read-only)
  --dry-run
      add, grant, revoke: show the change and write nothing
  --json
      print JSON for programs"""
VERBS: Final = ("check", "pack", "add", "grant", "revoke")
FLAGS: Final = ("--url", "--key-env", "--name", "--clients", "--seat")
SWITCHES: Final = ("--json", "--dry-run", "--embedded")


def run(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 failed or refused, 2 misused, or the configuration is wrong."""
    if "--help" in argv or "-h" in argv:
        from zorivest_rpc.config import usage

        print(f"{FORMS}\n\n{OWN}\n{usage('tenants').partition(chr(10))[2].strip(chr(10))}")
        return 0
    from zorivest_rpc.cli.words import Words

    words = Words(argv, flags=FLAGS, switches=SWITCHES)
    if not words.words or words.words[0] not in VERBS:
        from zorivest_rpc.cli.terminal import report_misuse

        return report_misuse("tenants", FORMS.partition("\n\n")[0], words.words, VERBS)
    verb = words.words.pop(0)
    return _command(verb)(words)


def _command(verb: str) -> Callable[..., int]:
    if verb in ("check", "pack"):
        from zorivest_rpc.cli.tenants.reading import run_check, run_pack

        return run_check if verb == "check" else run_pack
    from zorivest_rpc.cli.tenants.editing import run_add, run_grant, run_revoke

    return {"add": run_add, "grant": run_grant, "revoke": run_revoke}[verb]
