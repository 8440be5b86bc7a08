"""The Inspector's two command lines: one process per request, and one connection that many commands share."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIMIT = 15.0
MODERN = "2026-07-28"
KINDS = {"stdio": "stdio", "http": "streamable-http", "sse": "sse"}


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {LIMIT:g} s for {what}")
        time.sleep(0.02)


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects written one after the other in `text`; an unfinished last one is left out."""
    found, position, decoder = [], 0, json.JSONDecoder()
    with contextlib.suppress(json.JSONDecodeError):
        while position < len(text):
            value, position = decoder.raw_decode(text, position)
            found.append(value)
            position += len(text[position:]) - len(text[position:].lstrip())
    return found


class Inspector:
    def __init__(self, transport: str, config: dict[str, Any], directory: Path) -> None:
        self.era = "modern" if config["mode"] == MODERN else config["mode"]
        self.node: str = config["node"]
        self.programs = Path(config["modules"]) / "@modelcontextprotocol" / "inspector" / "clients"
        self.environment = os.environ | {
            "HOME": str(directory),
            "MCP_INSPECTOR_SECRET_STORE": "file",
            "MCP_INSPECTOR_DAEMON_TOKEN": secrets.token_urlsafe(32),
            "MCP_INSPECTOR_DAEMON_DIR": str(directory),
        }
        entry: dict[str, Any] = {"type": KINDS[transport]}
        if transport == "stdio":
            command, *arguments = config["command"]
            entry |= {"command": command, "args": arguments, "env": config["env"]}
        else:
            entry["url"] = config["url"]
        self.catalog = directory / "servers.json"
        self.catalog.write_text(json.dumps({"mcpServers": {"tour": entry}}))

    def start(self, program: str, arguments: list[str], stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        command = [self.node, str(self.programs / program), *arguments]
        return subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, arguments: list[str], failing: bool = False) -> Any:
        """What was printed; the inspector also fails where only the tool did, which some callers want to see."""
        process = self.start(program, arguments)
        try:
            output, errors = process.communicate(timeout=2 * LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode and not (failing and output):
            raise RuntimeError(f"inspector {' '.join(arguments)} ended with {process.returncode}:\n{output}{errors}")
        return json.loads(output)

    def once_arguments(self, method: str, *more: str) -> list[str]:
        where = ["--config", str(self.catalog), "--server", "tour", "--protocol-era", self.era]
        return ["--cli", *where, "--method", method, *more, "--format", "json", "--quiet"]

    def once(self, method: str, *more: str) -> Any:
        """A request in a process of its own: connect, ask, disconnect."""
        return self.run("launcher/build/index.js", self.once_arguments(method, *more))["result"]

    def command(self, *arguments: str) -> Any:
        return self.run("mcpdo/build/mcp-bin.js", ["--format", "json", *arguments])

    def ask(self, *arguments: str, failing: bool = False) -> Any:
        """A request over the shared connection."""
        own = ["--format", "json", "--connection", "tour"]
        return self.run("mcpdo/build/mcp-bin.js", [*own, *arguments], failing)

    def call(self, name: str, arguments: dict[str, Any], failing: bool = False) -> Any:
        return self.ask("tools/call", name, "--tool-args-json", json.dumps(arguments), failing=failing)

    @contextlib.contextmanager
    def connected(self) -> Iterator[dict[str, Any]]:
        try:
            yield self.command("connect", "--config", str(self.catalog), "tour", "--era", self.era)
        finally:
            pid: int = self.command("daemon", "status")["pid"]
            self.command("daemon", "stop")
            until(lambda: not alive(pid), "the inspector's daemon to end")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def tool_names(result: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in result["tools"]]


def asked(inspector: Inspector, *answer: str) -> tuple[dict[str, Any], list[str]]:
    pending = inspector.call("ask_name", {})["elicitationPending"]
    question = {"message": pending["message"], "properties": pending["requestedSchema"]["properties"]}
    return question, texts(inspector.ask("elicitation/respond", pending["elicitationId"], *answer))


def logs(inspector: Inspector, directory: Path) -> list[dict[str, Any]]:
    if inspector.era == "legacy":
        inspector.ask("logging/setLevel", "debug")
    file = directory / "tail.json"

    def tail() -> list[dict[str, Any]]:
        messages = [record["message"]["params"] for record in objects(file.read_text())]
        return [{"level": message["level"], "data": message["data"]} for message in messages]

    def attached() -> bool:
        inspector.call("log", {"message": "is anybody there?", "level": "error"})
        return bool(tail())

    with file.open("w") as output:
        process = inspector.start(
            "mcpdo/build/mcp-bin.js", ["--format", "json", "--connection", "tour", "logging/tail"], output
        )
        try:
            until(attached, "the log tail to attach")
            inspector.call("log", {"message": "first light", "level": "debug"})
            inspector.call("log", {"message": "heavy weather", "level": "error"})
            until(lambda: tail()[-1]["data"] == "heavy weather", "log messages")
        finally:
            process.terminate()
            process.communicate()
    return [message for message in tail() if message["data"] != "is anybody there?"]


def vanish(inspector: Inspector) -> dict[str, Any]:
    """A one-shot call whose process is killed: in the modern era over HTTP that is what cancels it."""

    def waiting() -> int:
        count: int = inspector.call("running", {})["structuredContent"]["waiting"]
        return count

    before = waiting()
    arguments = inspector.once_arguments("tools/call", "--tool-name", "wait", "--tool-args-json", '{"seconds": 60}')
    process = inspector.start("launcher/build/index.js", arguments)
    try:
        until(lambda: waiting() == before + 1, "the call to run")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    until(lambda: waiting() == before, "the abandoned call to stop running")
    return {"ended": "cancelled", "before": before, "after": waiting()}


def tour(transport: str, config: dict[str, Any], directory: Path) -> dict[str, Any]:
    inspector = Inspector(transport, config, directory)
    seen: dict[str, Any] = {"tools": tool_names(inspector.once("tools/list"))}
    echo = inspector.once("tools/call", "--tool-name", "echo", "--tool-args-json", '{"text": "grüße, 世界 🌍"}')
    seen["echo"] = {"texts": texts(echo), "structured": echo["structuredContent"], "failed": bool(echo.get("isError"))}
    with inspector.connected() as connection:
        seen["era"] = connection["protocolEra"]
        seen["count"] = {"texts": texts(inspector.call("count", {"to": 4, "delay_ms": 60}))}
        seen["logs"] = logs(inspector, directory)
        first, accepted = asked(inspector, "name:=Ada")
        second, declined = asked(inspector, "--decline")
        seen["ask"] = {"accepted": accepted, "declined": declined, "asked": [first, second]}
        if transport == "http" and inspector.era == "modern":
            seen["cancel"] = vanish(inspector)
        extra = []
        for _ in range(2):
            inspector.call("toggle_extra", {})
            extra.append("extra" in tool_names(inspector.ask("tools/list")))
        seen["change"] = {"extra": extra}
        greeting = inspector.ask("prompts/get", "greet", "--prompt-args", "name=Ada")
        seen["greeting"] = " ".join(message["content"]["text"] for message in greeting["messages"])
        contents = inspector.ask("resources/read", "showcase://note/42")["contents"]
        seen["note"] = "".join(part["text"] for part in contents)
    return seen


def obey(inspector: Inspector) -> None:
    """Orders from stdin, one JSON array a line, each answered with one line, over one connection."""
    answers: list[dict[str, Any]] = []
    with inspector.connected() as connection:
        print(json.dumps({"revision": connection["protocolEra"]}), flush=True)
        for line in sys.stdin:
            order, *given = json.loads(line)
            seen: Any = None
            if order == "call":
                seen = inspector.call(given[0], given[1], failing=True)
                if pending := seen.get("elicitationPending"):
                    seen = answered(inspector, pending["elicitationId"], answers.pop(0))
            elif order == "tools":
                seen = tool_names(inspector.ask("tools/list"))
            elif order == "answer":
                answers.extend(given[0])
            print(json.dumps(seen), flush=True)


def answered(inspector: Inspector, elicitation: str, answer: dict[str, Any]) -> Any:
    fields = [f"{name}:={json.dumps(value)}" for name, value in answer.get("content", {}).items()]
    how = fields if answer["action"] == "accept" else ["--decline"]
    return inspector.ask("elicitation/respond", elicitation, *how, failing=True)


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="inspector-") as place:
        if given.get("obey"):
            obey(Inspector(sys.argv[1], given, Path(place)))
        else:
            print(json.dumps(tour(sys.argv[1], given, Path(place))))
