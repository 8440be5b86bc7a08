"""Hostile messages: some from a grammar of what the server knows, some from damage done to legal ones.

Everything comes from one `Random`, so a seed names a run exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

__all__ = ["Generator"]

Json = Any
PREFIX: Final = "io.modelcontextprotocol/"
VERSIONS: Final = (
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
    "2099-01-01",
    "",
    "v1",
    5,
    None,
)
METHODS: Final = (
    *("initialize", "ping", "tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list"),
    *("resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe"),
    *("completion/complete", "logging/setLevel", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel"),
    *("tasks/update", "server/discover", "subscriptions/listen"),
)
NOTIFICATIONS: Final = (
    *("notifications/initialized", "notifications/cancelled", "notifications/progress"),
    *("notifications/roots/list_changed", "notifications/unknown", "tools/call"),
)
TOOLS: Final = (
    *("echo", "anything", "whoami", "progress", "log_all", "tool_error", "bad_output", "no_output", "list_output"),
    *("blocks", "ask_form", "ask_url", "ask_sample", "ask_roots", "ask_two", "ask_rounds", "need_sampling"),
    *("mirrored", "change", "touch", "task_only", "task_tool_error", "task_protocol_error", "task_ask"),
    *("become_task", "nobody", "", "ech\u00f6"),
)
PROMPTS: Final = ("plain", "named", "sound", "asks", "nobody", "")
URIS: Final = (
    *("test://one", "test://two", "test://asks", "test://note/1", "test://note/%", "test://file/a/b"),
    *("test://nowhere", "", "file:///etc/passwd", "test://note/" + "x" * 500, "test://file/\n"),
)
STRINGS: Final = (
    *("", "a", "text", "\u0000", "\u2028", "\U0001f600", "é", "x" * 200, "null", "1", "__proto__", "../..", "%s%n"),
    *("<script>", "'; --", "\ufeff", "\u202e"),
)
NUMBERS: Final = (
    *(0, 1, -1, 7, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40),
    *(0.5, -0.0, 1e308, 5e-324, 1.0),
)
ODD: Final = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"01", b"1.", b"+1", b"9" * 400, b"9" * 5000, b"0.1e+"),
    *(b'"\\ud800"', b'"\\udc00x"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"\\x41"', b"[" * 300 + b"]" * 300),
    *(
        b"[" * 990 + b"]" * 990,
        b"[" * 1020 + b"]" * 1020,
        b'{"a":' * 280 + b"1" + b"}" * 280,
        b"tru",
        b"'a'",
        b"",
        b"//",
    ),
)


class Generator:
    """`message` makes one frame; `answer` makes something to answer a question with."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._number = 0
        self.seen: list[str] = []  # ids, cursors and states that the server gave out, worth bringing back

    # --- values

    def value(self, depth: int = 0) -> Json:
        roll = self.random.random()
        if depth < 4 and roll < 0.15:
            return {self.string(): self.value(depth + 1) for _ in range(self.random.randrange(4))}
        if depth < 4 and roll < 0.3:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if roll < 0.6:
            return self.string()
        if roll < 0.85:
            return self.random.choice(NUMBERS)
        return self.random.choice((True, False, None))

    def string(self) -> str:
        if self.seen and self.random.random() < 0.1:
            return self.random.choice(self.seen)
        return self.random.choice(STRINGS)

    def either(self, likely: Callable[[], Json], chance: float = 0.85) -> Json:
        """Mostly what belongs there."""
        return likely() if self.random.random() < chance else self.value()

    # --- params

    def meta(self) -> Json:
        about: dict[str, Json] = {}
        if self.random.random() < 0.8:
            about[PREFIX + "protocolVersion"] = (
                "2026-07-28" if self.random.random() < 0.8 else self.random.choice(VERSIONS)
            )
        if self.random.random() < 0.9:
            about[PREFIX + "clientCapabilities"] = self.either(self.capabilities)
        if self.random.random() < 0.3:
            about["progressToken"] = self.either(lambda: self.random.choice((1, "t", 2**70)))
        if self.random.random() < 0.2:
            about[PREFIX + "logLevel"] = self.either(lambda: self.random.choice(("debug", "error")))
        if self.random.random() < 0.3:
            about[PREFIX + "clientInfo"] = self.either(lambda: {"name": self.value(), "version": self.value()})
        return about

    def capabilities(self) -> Json:
        given: dict[str, Json] = {}
        for name in ("sampling", "elicitation", "roots"):
            if self.random.random() < 0.6:
                given[name] = self.either(lambda: self.random.choice(({}, {"form": {}, "url": {}}, {"tools": {}})))
        if self.random.random() < 0.5:
            given["extensions"] = self.either(lambda: {PREFIX + "tasks": {}})
        return given

    def params(self, method: str) -> Json:  # noqa: C901 - one branch for each method
        choice = self.random.choice
        given: dict[str, Json] = {}
        match method:
            case "initialize":
                given = {
                    "protocolVersion": self.either(lambda: choice(VERSIONS)),
                    "capabilities": self.either(self.capabilities),
                    "clientInfo": self.either(lambda: {"name": "fuzz", "version": "1"}),
                }
            case "tools/call":
                given = {"name": self.either(lambda: choice(TOOLS)), "arguments": self.either(self.arguments)}
                if self.random.random() < 0.15:
                    given["task"] = self.either(lambda: choice(({}, {"ttl": 1000}, {"ttl": -1})))
            case "prompts/get":
                given = {"name": self.either(lambda: choice(PROMPTS))}
                given["arguments"] = self.either(lambda: {"a": self.string(), "b": self.string()})
            case "resources/read" | "resources/subscribe" | "resources/unsubscribe":
                given = {"uri": self.either(lambda: choice(URIS))}
            case "completion/complete":
                given = {
                    "ref": self.either(
                        lambda: choice(
                            (
                                {"type": "ref/prompt", "name": choice(PROMPTS)},
                                {"type": "ref/resource", "uri": "test://note/{id}"},
                                {"type": self.value()},
                            )
                        )
                    ),
                    "argument": self.either(lambda: {"name": self.string(), "value": self.string()}),
                    "context": self.either(lambda: {"arguments": {"x": self.string()}}),
                }
            case "logging/setLevel":
                given = {"level": self.either(lambda: choice(("debug", "info", "emergency", "loud")))}
            case "subscriptions/listen":
                given = {"notifications": self.either(self.filter)}
            case "notifications/cancelled":
                given = {"requestId": self.either(lambda: self.random.randrange(1, self._number + 2))}
            case _ if method.startswith("tasks/"):
                given = {"taskId": self.either(self.string), "inputResponses": self.either(self.answers)}
        if method.endswith("/list") and self.random.random() < 0.4:
            given["cursor"] = self.either(self.string)
        if self.random.random() < 0.2:
            given["inputResponses"] = self.either(self.answers)
        if self.random.random() < 0.2:
            given["requestState"] = self.either(self.string)
        if given and self.random.random() < 0.05:
            del given[choice(list(given))]
        return given

    def arguments(self) -> Json:
        names = ("text", "steps", "gate", "kind", "uri", "extra", "tools", "number", "flag", "nested")
        given: dict[str, Json] = {}
        for _ in range(self.random.randrange(3)):
            given[self.random.choice(names)] = self.value()
        if self.random.random() < 0.4:
            given["text"] = self.string()
        return given

    def filter(self) -> Json:
        keys = ("toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds")
        return {
            key: self.either(lambda key=key: True if "List" in key else [self.string()])  # type: ignore[misc]
            for key in keys
            if self.random.random() < 0.5
        }

    def answers(self) -> Json:
        keys = ("name", "roots", "first", "second", "page", "words", "other")
        return {self.random.choice(keys): self.answer() for _ in range(self.random.randrange(3))}

    def answer(self) -> Json:
        return self.either(
            lambda: self.random.choice(
                (
                    {"action": "accept", "content": {"name": "Ada"}},
                    {"action": self.random.choice(("accept", "decline", "cancel", "x", None)), "content": self.value()},
                    {"roots": [{"uri": "file:///a"}]},
                    {"roots": self.value()},
                    {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}},
                    {"content": self.value()},
                )
            )
        )

    # --- frames

    def message(self, modern: bool) -> bytes:
        roll = self.random.random()
        if roll < 0.05:
            return self.noise()
        if roll < 0.1:
            count = self.random.randrange(5)
            return b"[" + b",".join(self.one(modern) for _ in range(count)) + b"]"
        frame = self.one(modern)
        if roll < 0.3:
            frame = self.damage(frame)
        return frame.replace(b"\n", b" ")

    def one(self, modern: bool) -> bytes:
        roll = self.random.random()
        self._number += 1
        if roll < 0.08:
            return self.dump({"jsonrpc": "2.0", "id": self.either(self.string), "result": self.answer()})
        if roll < 0.12:
            return self.dump({"jsonrpc": "2.0", "id": self.either(self.string), "error": self.value()})
        if roll < 0.2:
            method = self.random.choice(NOTIFICATIONS)
            return self.dump({"jsonrpc": "2.0", "method": method, "params": self.either(lambda: self.params(method))})
        method = self.random.choice(METHODS) if self.random.random() < 0.95 else self.string()
        if method == "initialize" and self.random.random() < 0.8:
            method = "tools/call"
        params = self.either(lambda: self.params(method), 0.95)
        if isinstance(params, dict) and (modern or self.random.random() < 0.1):
            params["_meta"] = self.either(self.meta, 0.95)
        return self.dump({"jsonrpc": "2.0", "id": self.id(), "method": method, "params": params})

    def id(self) -> Json:
        roll = self.random.random()
        if roll < 0.8:
            return self._number
        return f"s{self._number}" if roll < 0.95 else self.value()

    def dump(self, message: Json) -> bytes:
        return json.dumps(message, ensure_ascii=self.random.random() < 0.5).encode("utf-8", "surrogatepass")

    def noise(self) -> bytes:
        size = self.random.randrange(1, 60)
        data = self.random.randbytes(size) if self.random.random() < 0.5 else self.random.choice(ODD)
        return data.replace(b"\n", b"").replace(b"\r", b"") or b"x"

    def damage(self, frame: bytes) -> bytes:
        random = self.random
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(frame) + 1)
            match random.randrange(7):
                case 0:
                    frame = frame[:at]
                case 1:
                    frame = frame[:at] + random.randbytes(random.randrange(1, 4)) + frame[at:]
                case 2:
                    frame = frame[:at] + frame[at + random.randrange(1, 6) :]
                case 3:
                    end = random.randrange(at, len(frame) + 1)
                    frame = frame[:at] + frame[at:end] * 2 + frame[end:]
                case 4 | 5:  # one value for an odd one
                    colon = frame.find(b":", at)
                    comma = min((p for p in (frame.find(b",", colon), frame.find(b"}", colon)) if p > 0), default=-1)
                    if 0 <= colon < comma:
                        frame = frame[: colon + 1] + random.choice(ODD) + frame[comma:]
                case 6:  # a member twice
                    frame = frame.replace(b'"method"', b'"id":null,"method":5,"id":3,"method"', 1)
        return frame or b"{"
