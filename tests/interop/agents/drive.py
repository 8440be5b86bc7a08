"""The four agents, each behind the same few words: open, play a turn, close, and what the user is asked meanwhile.

Codex is driven through its app server, Claude Code through its stream of JSON, Gemini CLI and opencode through the
Agent Client Protocol: the ways in which editors drive them. The user's part is `User`: what it is asked is kept, and
what it answers is decided by the tool that the question is about."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance import node
from tests.interop.agents.home import Home
from tests.interop.agents.model import MODEL
from tests.interop.agents.peer import Peer
from tests.interop.agents.script import Script, Step
from tests.interop.environments import modules_with

Json = Any
VERSIONS = {"codex": "0.169.0", "claude-code": "2.1.326", "gemini-cli": "0.61.0", "opencode": "1.18.33"}


class Question(NamedTuple):
    """`kind` is `form` for one of ours that the agent passed on, `permission` for one of the agent's own."""

    kind: str
    about: str


class User:
    """Says yes to everything but the gated write, of which `agrees` decides."""

    def __init__(self, form: dict[str, Json]) -> None:
        self.agrees = True
        self.asked: list[Question] = []
        self._form = form

    def permit(self, about: str) -> bool:
        self.asked.append(Question("permission", about))
        return self.agrees or "create_trade" not in about

    def fill_in(self, message: str) -> dict[str, Json]:
        self.asked.append(Question("form", message))
        return {"action": "accept", "content": self._form} if self.agrees else {"action": "decline"}


class Agent(ABC):
    def __init__(self, home: Home, script: Script, user: User, model: str) -> None:
        self.home, self.script, self.user, self.model = home, script, user, model

    @abstractmethod
    async def open(self) -> None: ...

    async def turn(self, *steps: Step) -> list[str]:
        """One message of the user, answered by these steps; the results that the model saw meanwhile."""
        seen = len(self.script.seen)
        self.script.begin(steps)
        await self.prompt()
        return [result for offered in self.script.seen[seen:] for result in offered.results]

    @abstractmethod
    async def prompt(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class Codex(Agent):
    async def open(self) -> None:
        home, command = self.home, self.home.server()
        (home.root / ".codex").mkdir()
        (home.root / ".codex" / "config.toml").write_text(
            f"""model = "{MODEL}"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{self.model}/v1"
wire_api = "responses"

[mcp_servers.zorivest]
command = {json.dumps(command[0])}
args = {json.dumps(command[1:])}
startup_timeout_sec = 120

[mcp_servers.zorivest.env]
ZORIVEST_KEYRING = "off"
"""
        )
        package = modules_with(f"codex-{VERSIONS['codex']}") / "@openai"
        program = next(package.glob("codex-*/vendor/*/bin/codex"))
        environment = home.environment()
        self._peer = await Peer.start(
            [str(program), "app-server"], self._answer, env=environment, cwd=home.project, errors=home.errors
        )
        await self._peer.request("initialize", {"clientInfo": {"name": "zorivest-interop", "version": "1"}})
        self._peer.notify("initialized")
        started = await self._peer.request("thread/start", {"cwd": str(home.project)})
        self._thread = started["result"]["thread"]["id"]
        await self._peer.until(lambda peer: any(_is_ready(method, params) for method, params in peer.notes))

    def _answer(self, method: str, params: Json) -> Json:
        if method != "mcpServer/elicitation/request":
            raise AssertionError(f"Codex asked {method}")
        about = params.get("_meta") or {}
        if about.get("codex_approval_kind") == "mcp_tool_call":
            return {"action": "accept" if self.user.permit(about["tool_name"]) else "decline", "content": {}}
        return self.user.fill_in(params["message"])

    async def prompt(self) -> None:
        before = self._completed(self._peer)
        params = {"threadId": self._thread, "input": [{"type": "text", "text": "Go on."}]}
        await self._peer.request("turn/start", params)
        await self._peer.until(lambda peer: self._completed(peer) > before)

    @staticmethod
    def _completed(peer: Peer) -> int:
        return sum(method == "turn/completed" for method, _ in peer.notes)

    async def close(self) -> None:
        await self._peer.close()


def _is_ready(method: str, params: Json) -> bool:
    return method == "mcpServer/startupStatus/updated" and (params["name"], params["status"]) == ("zorivest", "ready")


class ClaudeCode(Agent):
    async def open(self) -> None:
        home, command = self.home, self.home.server()
        servers = {
            "zorivest": {
                "type": "stdio",
                "command": command[0],
                "args": [*command[1:], "--toolsets", "trade-analytics"],
            }
        }
        config = home.root / "mcp.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        package = modules_with(f"claude-code-{VERSIONS['claude-code']}") / "@anthropic-ai"
        program = next(package.glob("claude-code-*/claude*"))
        environment = home.environment(
            ANTHROPIC_BASE_URL=self.model,
            ANTHROPIC_API_KEY="scripted",
            DISABLE_TELEMETRY="1",
            DISABLE_AUTOUPDATER="1",
            DISABLE_ERROR_REPORTING="1",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        )
        options = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        # create_trade is on the list of what need not be asked, and its mark makes Claude Code ask all the same
        allowed = "mcp__zorivest__create_trade"
        options += ["--permission-prompt-tool", "stdio", "--allowedTools", allowed]
        with home.errors.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                *(str(program), "-p", *options, "--mcp-config", str(config), "--strict-mcp-config"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=home.project,
                limit=64 * 1024 * 1024,
            )
        self._results: asyncio.Queue[Json] = asyncio.Queue()
        self._reader = asyncio.create_task(self._read())
        self._send({"type": "control_request", "request_id": "open", "request": {"subtype": "initialize"}})

    def _send(self, message: Json) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self._child.stdout is not None
        async for line in self._child.stdout:
            message = json.loads(line)
            if message["type"] == "result":
                self._results.put_nowait(message)
            elif message["type"] == "control_request":
                given = {"subtype": "success", "request_id": message["request_id"]}
                response = {**given, "response": self._answer(message["request"])}
                self._send({"type": "control_response", "response": response})

    def _answer(self, request: Json) -> Json:
        if request["subtype"] == "elicitation":
            return self.user.fill_in(request["message"])
        assert request["subtype"] == "can_use_tool", request
        if self.user.permit(request["tool_name"]):
            return {"behavior": "allow", "updatedInput": request["input"]}
        return {"behavior": "deny", "message": "The user said no."}

    async def prompt(self) -> None:
        message = {"role": "user", "content": "Go on."}
        self._send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""})
        async with asyncio.timeout(180):
            await self._results.get()

    async def close(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.close()
        await self._child.wait()
        await self._reader


class _ThroughEditorProtocol(Agent):
    """Agent Client Protocol: the agent asks `session/request_permission` of the editor that drives it."""

    @abstractmethod
    def configure(self) -> tuple[list[str], dict[str, str]]:
        """The command and its environment, once its configuration file is written."""

    async def open(self) -> None:
        command, environment = self.configure()
        home = self.home
        self._peer = await Peer.start(command, self._answer, env=environment, cwd=home.project, errors=home.errors)
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}}
        await self._peer.request("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        opened = await self._peer.request("session/new", {"cwd": str(home.project), "mcpServers": []})
        self._session = opened["result"]["sessionId"]

    def _answer(self, method: str, params: Json) -> Json:
        assert method == "session/request_permission", method
        wanted = "allow_once" if self.user.permit(params["toolCall"]["title"]) else "reject_once"
        option = next(option for option in params["options"] if option["kind"] == wanted)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    async def prompt(self) -> None:
        text = {"type": "text", "text": "Go on."}
        answer = await self._peer.request("session/prompt", {"sessionId": self._session, "prompt": [text]})
        assert "result" in answer, answer

    async def close(self) -> None:
        await self._peer.close()


class GeminiCli(_ThroughEditorProtocol):
    def configure(self) -> tuple[list[str], dict[str, str]]:
        home, command = self.home, self.home.server()
        settings = {
            "mcpServers": {"zorivest": {"command": command[0], "args": command[1:]}},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        _write(home.root / ".gemini" / "settings.json", settings)
        package = modules_with(f"gemini-cli-{VERSIONS['gemini-cli']}") / "@google" / "gemini-cli"
        program = [str(node.node()), str(package / "bundle" / "gemini.js"), "--acp", "--model", "gemini-2.5-pro"]
        environment = home.environment(
            GEMINI_API_KEY="scripted", GOOGLE_GEMINI_BASE_URL=self.model, GEMINI_CLI_NO_RELAUNCH="1"
        )
        return program, environment


class OpenCode(_ThroughEditorProtocol):
    def configure(self) -> tuple[list[str], dict[str, str]]:
        home = self.home
        model = {"name": MODEL, "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "model": f"scripted/{MODEL}",
            "small_model": f"scripted/{MODEL}",
            "provider": {
                "scripted": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "scripted",
                    "options": {"baseURL": f"{self.model}/v1", "apiKey": "scripted"},
                    "models": {MODEL: model},
                }
            },
            "mcp": {"zorivest": {"type": "local", "command": home.server(), "enabled": True}},
            "permission": {"zorivest_create_trade": "ask"},  # by itself it would ask for nothing
        }
        _write(home.root / ".config" / "opencode" / "opencode.json", settings)
        package = modules_with(f"opencode-{VERSIONS['opencode']}")
        program = next(package.glob("opencode-*/bin/opencode*"))
        off = ("AUTOUPDATE", "MODELS_FETCH", "SHARE", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return [str(program), "acp"], home.environment(**{f"OPENCODE_DISABLE_{name}": "1" for name in off})


def _write(path: Path, value: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


AGENTS: dict[str, type[Agent]] = {
    "codex": Codex,
    "claude-code": ClaudeCode,
    "gemini-cli": GeminiCli,
    "opencode": OpenCode,
}
