"""`zorivest-rpc connect`: what can be connected to the embedded backend, and the way to enter a key.

What is asked for follows from the backend's own list; what was entered goes to the backend and nowhere else."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from zorivest_rpc.cli.admin import Admin, RequestRefused, tell
from zorivest_rpc.cli.answers import Answers, Typed, answers
from zorivest_rpc.cli.connections import Parser, backend_of, describe, find_connection, place, read_words
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]

_MAIL_OPTIONS = ("preset", "host", "port", "security", "username", "from_email")
_LONGEST_NAME = 16  # so that the table keeps to its width whatever a server is called
_PROVIDER_OPTIONS = ("rate_limit", "timeout")


def run(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused, unreachable or a failed test, 2 misused."""
    parser = _parser()
    arguments = read_words(parser, argv, list_without=True)
    _fitting(parser, arguments)
    try:
        backend = backend_of(arguments)
        listed = backend.ask("GET", "/connections")
        if arguments.kind is None:
            tell(listed, _table(listed), arguments.json)
            return 0
        if arguments.kind == "mail":
            return _connect_mail(backend, listed["mail"], arguments)
        return _connect(backend, find_connection(listed, arguments.kind, arguments.name), arguments)
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc connect: {exc}", file=sys.stderr)
        return 1


def _table(listed: Any) -> str:
    from zorivest_rpc.cli.terminal import table

    rows = [("provider", entry["name"], _state(entry), describe(entry["credentials"])) for entry in listed["providers"]]
    rows += [
        ("broker", entry["name"], _state(entry), describe(entry["credentials"]))
        for entry in listed["brokers"]
        if not entry["files_only"]
    ]
    server = listed["mail"]["server"]
    takes = ", ".join(["server", *(one["label"] for one in listed["mail"]["credentials"])])
    name = (server["preset"] or server["host"]) if server else ""
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    rows.append(("mail", short, "yes" if server else "no", takes))
    return table(rows, ("kind", "name", "connected", "takes")) + "\n\nIn [ ]: may be left out."


def _state(entry: Any) -> str:
    """yes, no, off, or what is known to be wrong."""
    if entry["missing"]:
        return "no"
    if not entry["is_enabled"]:
        return "off"
    if "failed" in (entry.get("last_test_status"), entry.get("last_status")):
        return "failing"
    return "yes"


def _connect(backend: Admin, entry: Any, arguments: argparse.Namespace) -> int:
    kind, who = arguments.kind, entry["display_name"]
    credentials = entry["credentials"]
    source = answers(as_json=arguments.stdin_json, names=[one["name"] for one in credentials])
    if isinstance(source, Typed) and credentials and "signup_url" in entry:
        print(f"{who}: {entry['signup_url']}", file=sys.stderr)
    body: dict[str, Any] = {"is_enabled": True}
    for one in credentials:
        if value := source.get(one["name"], one["label"], secret=one["secret"], required=one["required"]):
            body[one["name"]] = value
    body |= {name: value for name in _PROVIDER_OPTIONS if (value := getattr(arguments, name)) is not None}
    backend.ask("PUT", place(kind, entry), body)
    done: dict[str, Any] = {"status": "connected", "kind": kind, "name": entry["name"], "test": None}
    if not arguments.json:
        print(f"{who}: {'stored' if any(one['name'] in body for one in credentials) else 'switched on'}", flush=True)
    if not arguments.no_test:
        done["test"] = _test_credential(backend, kind, entry)
    if arguments.json:
        print(json.dumps(done))
    elif done["test"] is not None:
        found = "tested," if done["test"]["success"] else "the test did not succeed:"
        print(f"{who}: {found} {done['test']['message']}")
    elif kind == "broker":
        print(f"{who}: not tested; zorivest-rpc tools call sync_broker broker_id={entry['name']} fetches its trades")
    return 0 if done["test"] is None or done["test"]["success"] else 1


def _test_credential(backend: Admin, kind: str, entry: Any) -> Any:
    """What the backend found out; None where there is no way to ask without fetching everything."""
    if kind == "provider":
        found = backend.ask("POST", place(kind, entry, "test"), {})
        return {"success": found["success"], "message": found["message"]}
    if "positions" not in entry["supports"]:
        return None
    try:
        held = backend.ask("GET", place(kind, entry, "positions"))["items"]
    except RequestRefused as exc:
        return {"success": False, "message": str(exc)}
    return {"success": True, "message": f"connection successful, {len(held)} open positions"}


def _connect_mail(backend: Admin, mail: Any, arguments: argparse.Namespace) -> int:
    names = ("preset", "host", "port", "security", *(one["name"] for one in mail["credentials"]))
    source = answers(as_json=arguments.stdin_json, names=names)
    body = _server(mail, arguments, source)
    labels = {one["name"]: one["label"] for one in mail["credentials"]}
    username = arguments.username
    if username is None:
        username = source.get("username", labels["username"], required=False)
    body["username"] = username.strip()
    if username.strip():
        body["password"] = source.get("password", labels["password"], secret=True)
    usual = username.strip() if "@" in username else ""
    sender = arguments.from_email or source.get("from_email", labels["from_email"], default=usual)
    body["from_email"] = sender.strip()
    kept = backend.ask("PUT", "/scheduling/email", body)
    text = f"mail: stored; from {kept['from_email']} through {kept['host']}:{kept['port']} ({kept['security']})"
    tell({"status": "connected", "kind": "mail", "server": kept}, text, arguments.json)
    return 0


def _server(mail: Any, arguments: argparse.Namespace, source: Answers) -> dict[str, Any]:
    """A preset, or a host with its security and port."""
    presets = mail["presets"]
    preset, host = arguments.preset, arguments.host
    if preset is None and host is None and arguments.stdin_json:
        preset = source.get("preset", "preset", required=False) or None
        host = None if preset else source.get("host", "host")
    elif preset is None and host is None:
        word = source.get("host", f"service ({', '.join(presets)}) or host").strip()
        preset, host = (None, word) if "." in word or ":" in word or word == "localhost" else (word, None)
    if preset is not None:
        if preset.lower() not in presets:
            from zorivest_rpc.mcp.catalog.names import nearest

            near = nearest(preset, presets)
            raise RequestRefused(
                f"unknown preset; {f'did you mean {near}?' if near else 'there are ' + ', '.join(presets)}"
            )
        given: dict[str, Any] = {"preset": preset.lower()}
        for name in ("security", "port"):
            value = getattr(arguments, name)
            if value is None and arguments.stdin_json:
                value = source.get(name, name, required=False)
            if value:
                given[name] = _number(value) if name == "port" else value
        return given
    ports = {one["name"]: one["port"] for one in mail["security"]}
    usual = mail["security"][0]["name"]
    security = arguments.security or source.get("security", f"security ({', '.join(ports)})", default=usual).strip()
    if security not in ports:
        raise RequestRefused(f"security is one of {', '.join(ports)}; nothing was stored")
    port = arguments.port or source.get("port", "port", default=str(ports[security]))
    return {"host": host, "security": security, "port": _number(port)}


def _number(port: int | str) -> int:
    try:
        return int(port)
    except ValueError:
        raise RequestRefused("the port is not a number; nothing was stored") from None


def _fitting(parser: Parser, arguments: argparse.Namespace) -> None:
    """An option of another kind is misuse."""
    for kind, names in (("mail", _MAIL_OPTIONS), ("provider", _PROVIDER_OPTIONS)):
        for name in names:
            if getattr(arguments, name) is not None and arguments.kind != kind:
                parser.error(f"--{name.replace('_email', '').replace('_', '-')} is for {kind}")
    if arguments.preset is not None and arguments.host is not None:
        parser.error("--preset or --host, not both")


def _parser() -> Parser:
    parser = Parser(
        "connect",
        "Connect the embedded backend to a market data provider, a broker or a mail server. Without words: what can "
        "be connected, and what is. Keys and passwords are typed at the terminal without being shown, or piped: one "
        "line each in the order asked, and only what has no default. They are never arguments.",
    )
    parser.add_argument("kind", nargs="?", help="provider, broker or mail")
    parser.add_argument("name", nargs="?", help="which provider or broker")
    parser.add_argument("--no-test", action="store_true", help="store it and do not try it")
    parser.add_argument("--stdin-json", action="store_true", help="read one JSON object instead of lines")
    provider = parser.add_argument_group("provider")
    provider.add_argument("--rate-limit", type=int, metavar="N", help="requests a minute")
    provider.add_argument("--timeout", type=int, metavar="SECONDS", help="how long one request may take")
    mail = parser.add_argument_group("mail")
    mail.add_argument("--preset", metavar="NAME", help="a well-known service, such as gmail")
    mail.add_argument("--host", help="the server, where there is no preset")
    mail.add_argument("--port", type=int, metavar="N", help="its port (default: that of the security)")
    mail.add_argument("--security", help="starttls, ssl, or none for a server on this machine")
    mail.add_argument("--username", metavar="NAME", help="whom to log in as; empty for nobody")
    mail.add_argument("--from", dest="from_email", metavar="ADDRESS", help="the sender (default: the username)")
    return parser
