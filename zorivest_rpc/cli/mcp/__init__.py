"""`zorivest-rpc mcp`: the other MCP servers whose tools stand beside ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["run"]

FORMS: Final = """\
usage: zorivest-rpc mcp list [--all] [--json]
       zorivest-rpc mcp discover [--server NAME] [--tenant ID] [--json]
       zorivest-rpc mcp add NAME (--url URL | -- COMMAND ARGS…)
       zorivest-rpc mcp remove NAME
       zorivest-rpc mcp adopt CLIENT [--server NAME]…
       zorivest-rpc mcp pin [--server NAME] [--tool NAME] [--tenant ID] [--yes]

  list      the servers of the profile, without contacting one
  discover  ask each server once for its tools, and show what becomes of them
  add       write a server into the configuration file; a token is named by its variable
  remove    take it out again
  adopt     take over the servers that a client has configured, without the secrets in its file
  pin       trust the working directory's configuration file as it is now; else show the tools that are
            held back because they are new, changed or suspicious, and accept them"""
OWN: Final = """\
  --all
      list: disabled servers too
  --auth-bearer-env NAME
      add: the variable that holds the server's bearer token
  --timeout-secs SECONDS
      add: how long connecting and all lists may take, at most 300 (default 15)
  --env-pass NAME
      add: a variable that the started server is handed; may be repeated
  --server NAME
      discover, pin: this one alone; adopt: this one of the client's servers, may be repeated
  --tool NAME
      pin: this one alone
  --tenant ID
      discover, pin: the servers of this client, with its own tokens
  --dry-run
      add, remove, adopt: show the change and write nothing
  --yes
      pin: do not ask
  --json
      print JSON for programs"""
VERBS: Final = ("list", "discover", "add", "remove", "adopt", "pin")


def run(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 failed or refused, 2 misused."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    if "--help" in own or "-h" in own:
        from zorivest_rpc.config import usage

        print(f"{FORMS}\n\n{OWN}\n{usage('mcp').partition(chr(10))[2].strip(chr(10))}")
        return 0
    verb = _verb(own)
    if verb is None:
        from zorivest_rpc.cli.words import Words

        return _misuse(
            Words(
                own,
                flags=("--url", "--server", "--tool", "--tenant", "--auth-bearer-env", "--timeout-secs"),
                switches=_SWITCHES,
            ).words
        )
    rest = list(argv)
    rest.remove(verb)
    return _command(verb)(rest)


_SWITCHES: Final = ("--json", "--all", "--yes", "--dry-run")


def _verb(words: list[str]) -> str | None:
    """The first word that is no option and no option's value."""
    from zorivest_rpc.config import is_switch

    position = 0
    while position < len(words):
        word = words[position]
        if not word.startswith("--"):
            return word if word in VERBS else None
        alone = "=" in word or word in _SWITCHES or is_switch(word)
        position += 1 if alone else 2
    return None


def _command(verb: str) -> Callable[[list[str]], int]:
    if verb == "list":
        from zorivest_rpc.cli.mcp.listing import run_list

        return run_list
    if verb == "discover":
        from zorivest_rpc.cli.mcp.discovering import run_discover

        return run_discover
    if verb == "adopt":
        from zorivest_rpc.cli.mcp.adopting import run_adopt

        return run_adopt
    if verb == "pin":
        from zorivest_rpc.cli.mcp.pinning import run_pin

        return run_pin
    from zorivest_rpc.cli.mcp.editing import run_add, run_remove

    return run_add if verb == "add" else run_remove


def _misuse(words: list[str]) -> int:
    from zorivest_rpc.cli.terminal import report_misuse

    return report_misuse("mcp", FORMS.partition("\n\n")[0], words, VERBS)
