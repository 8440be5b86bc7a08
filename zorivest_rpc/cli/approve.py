"""`zorivest-rpc approve POLICY`: show a scheduled policy to the person at the terminal and approve it if they agree.

This is the only way to approve. It reads the one-time token from the data directory and wants a terminal to ask at, so
no program approves by piping "yes" into it."""

from __future__ import annotations

import argparse
import json
import sys
import urllib.parse
from pathlib import Path
from typing import Any

from zorivest_rpc.cli.admin import Admin, RequestRefused, add_data_dir, place_of
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 approved or already approved, 1 refused, declined or unreachable, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        place = place_of(arguments)
        backend = Admin.at(place)
        policies = backend.ask("GET", "/scheduling/policies")["policies"]
        if arguments.policy is None:
            return _list(policies)
        policy = _find_policy(policies, arguments.policy)
        _show(policy)
        if policy["approved"]:
            print("This policy is approved as it is.")
            return 0
        if not sys.stdin.isatty():
            raise RequestRefused("approving needs a person at a terminal")
        if not _ask_consent():
            print("Not approved.")
            return 1
        approved = _approve(backend, place.data_dir, policy)
        print(f'Approved "{approved["name"]}". Next run: {approved["next_run"] or "none, the schedule is paused"}.')
        return 0
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc approve: {exc}", file=sys.stderr)
        return 1


def _list(policies: list[Any]) -> int:
    for policy in policies:
        print(f"{policy['id']}  {'approved' if policy['approved'] else 'waiting '}  {_safe(policy['name'])}")
    if not policies:
        print("There are no policies.")
    return 0


def _find_policy(policies: list[Any], wanted: str) -> Any:
    """By id, by name, or by the beginning of an id that is long enough and fits one policy."""
    for field in ("id", "name"):
        for policy in policies:
            if policy[field] == wanted:
                return policy
    close = [policy for policy in policies if len(wanted) >= 6 and policy["id"].startswith(wanted)]
    if len(close) == 1:
        return close[0]
    raise RequestRefused(f'there is no policy "{wanted}"; zorivest-rpc approve without a name lists them')


def _show(policy: Any) -> None:
    """Everything that will run, in full: what is not shown cannot be agreed to."""
    document = policy["policy_json"]
    trigger = document["trigger"]
    print(f"Policy    {_safe(policy['name'])}")
    print(f"Id        {policy['id']}")
    print(f"Hash      {policy['content_hash']}")
    print(f"Schedule  {_safe(trigger['cron_expression'])} ({_safe(trigger['timezone'])})")
    print(f"Active    {'yes' if trigger['enabled'] else 'no, paused'}")
    if document["metadata"].get("description"):
        print(f"About     {_safe(document['metadata']['description'])}")
    for number, step in enumerate(document["steps"], 1):
        print(f"\nStep {number}: {step['id']} ({step['type']})")
        rest = {name: value for name, value in step.items() if name not in ("id", "type")}
        for line in json.dumps(rest, indent=2).splitlines()[1:-1]:  # ASCII only: nothing can hide behind control codes
            print(f"  {line}")
    print()


def _safe(text: str) -> str:
    """Text of the policy, without characters that move the cursor or hide others."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _ask_consent() -> bool:
    try:
        return input('Type "approve" to let it run: ').strip().lower() == "approve"
    except EOFError:
        return False


def _approve(backend: Admin, data_dir: Path, policy: Any) -> Any:
    """Approve exactly the document that was shown, with the one-time token of the data directory."""
    try:
        token = (data_dir / "approval.token").read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise RequestRefused(f"the approval token in {data_dir} cannot be read") from None
    path = f"/scheduling/policies/{urllib.parse.quote(policy['id'], safe='')}/approve"
    return backend.ask("POST", path, {"content_hash": policy["content_hash"]}, {"X-Approval-Token": token})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc approve",
        description="Approve a scheduled policy of the embedded backend after looking at it. A policy that is changed "
        "afterwards, other than paused or resumed, has to be approved again.",
    )
    parser.add_argument("policy", nargs="?", help="its id or name; without one the policies are listed")
    add_data_dir(parser)
    return parser
