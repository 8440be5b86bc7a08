"""The command: `zorivest-rpc`, also `python -m zorivest_rpc`. No verb means stdio, and stdio takes the short way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zorivest_rpc.config_file import ConfigFileRefused

__all__ = ["main"]

COMMANDS = {
    "stdio": "serve one client on stdin and stdout (the default)",
    "serve": "serve HTTP: /mcp, /sse and /messages, /health, /ready, /metrics",
    "tools": "list | show NAME | call NAME [k=v…] | search TEXT | why NAME",
    "toolsets": "list | show NAME: the groups, with counts and sizes",
    "budget": "what the tool list costs a client",
    "mcp": "list | discover | add | remove | adopt | pin: the MCP servers behind this one",
    "tenants": "check | pack | add | grant | revoke: the clients of a shared server, and their keys",
    "devtools": "snippet | demo: the script of a page that is to be observed, and a page to try it on",
    "install": "CLIENT: write our entry into a client's configuration file",
    "uninstall": "CLIENT: take it out again",
    "doctor": "what is wrong with this set-up, and what to do about it",
    "backend": "run the embedded backend in the foreground",
    "demo": "load | remove the demo data of the embedded backend",
    "approve": "approve a scheduled policy, as only a person at a terminal can",
    "stop": "lock every guarded tool at once; only a person unlocks it again",
    "unlock": "release the guard's lock, as only a person at a terminal can",
    "connect": "provider NAME | broker NAME | mail: enter its key, and test it",
    "disconnect": "provider NAME | broker NAME | mail: delete what was entered",
    "keys": "list | create | revoke API keys of the embedded backend; passphrase",
    "backup": "create | list | restore backups of the embedded journal",
    "version": "version, Python, revisions served",
}


def main(argv: list[str] | None = None) -> int:
    """The exit code. A reader that has seen enough (`| head`) is no failure of ours, whatever the command."""
    _open_standard_files()
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        import contextlib
        import os

        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there
        return 0


def _open_standard_files() -> None:
    """Give a closed stdin, stdout or stderr back its place.

    Otherwise the next file or socket gets its number: what a library writes to stderr would end up in a journal, and
    libuv aborts the process. Python has None for such a stream, and `print(file=None)` writes to stdout."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115 - it stays open
            setattr(sys, name, stream)


def _verb(words: list[str]) -> tuple[str, list[str]]:
    """The command and what follows it; options may stand before it too, as in `--profile work mcp list`."""
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    position = 0
    while position < len(words) and words[position].startswith("--"):
        from zorivest_rpc.config import is_switch

        flag, equals, _ = words[position].partition("=")
        position += 1 if equals or is_switch(flag) else 2
    if position < len(words) and words[position] in COMMANDS:
        return words[position], [*words[:position], *words[position + 1 :]]
    return "stdio", words


def _run(words: list[str]) -> int:
    command, rest = _verb(words)
    if words and words[0] in ("-h", "--help", "help"):
        print("usage: zorivest-rpc [command] [options]\n")
        for name, does in COMMANDS.items():
            print(f"  {name:10} {does}")
        print("\nzorivest-rpc COMMAND --help lists its options.")
        return 0
    if command not in COMMANDS:
        from difflib import get_close_matches

        close = get_close_matches(command, COMMANDS, 1)
        hint = f"did you mean {close[0]}?" if close else "see zorivest-rpc --help"
        print(f"zorivest-rpc: unknown command {command!r}; {hint}", file=sys.stderr)
        return 2
    from importlib import import_module

    from zorivest_rpc.config_file import ConfigFileRefused
    from zorivest_rpc.errors import ConfigError

    try:
        module = import_module(f"zorivest_rpc.cli.{command}")
        return int(module.run(rest))
    except ExceptionGroup as group:  # the catalogue: every problem of every file
        for problem in group.exceptions:
            print(f"zorivest-rpc: {problem}", file=sys.stderr)
        return 2
    except ConfigFileRefused as refused:
        print(_tell_problems(refused), file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"zorivest-rpc: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _tell_problems(refused: ConfigFileRefused) -> str:
    """Every problem of the file: those that stopped us, and behind wrong options those of the profiles."""
    if refused.document is not None:
        from zorivest_rpc.gateway.config import check_profiles

        told = set(refused.problems)
        more = check_profiles(refused.document.get("profiles"))
        refused.problems.extend(problem for problem in more if problem not in told)
    return str(refused)


if __name__ == "__main__":
    sys.exit(main())
