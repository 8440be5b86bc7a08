"""A child that speaks MCP over stdio and does what its first argument and its calls say; standard library alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "modern"
DIES_AT, MARK = (sys.argv[2], sys.argv[3]) if len(sys.argv) > 3 else ("", "")  # a method, once: the file says it was
ERA = "legacy" if "legacy" in MODE else "modern"
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
CAPABILITIES = {"tools": {"listChanged": True}}
out = sys.stdout.buffer
asked: dict[Any, Any] = {}
dying: list[Any] = []  # the id of the request whose answer is the last word


def write(data: bytes) -> None:
    out.write(data)
    out.flush()


def send(**message: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    if dying and dying[0] == message.get("id"):
        write(line[: len(line) // 2])
        os._exit(3)
    write(line)


def open_(id: Any, method: str) -> None:
    if method == "server/discover":
        if "silent" in MODE:
            return
        if ERA == "modern":
            send(id=id, result={"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES})
        else:
            send(id=id, error={"code": -32601, "message": "no such method"})
    else:
        info = {"name": "child", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info})


def call(id: Any, params: Any) -> None:  # noqa: C901 - one case per thing to do
    arguments = params.get("arguments", {})
    action = arguments.get("do", "echo")
    result = {"content": [{"type": "text", "text": str(arguments.get("text", ""))}]}
    match action:
        case "bytes":
            for byte in json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n":
                write(bytes([byte]))
        case "crlf":
            write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\r\n")
        case "noise":
            write(b"DEBUG: starting\n\n{not json}\n")
            send(id="unknown", result={})
            send(id=999, result={})
            send(id=id, result=result)
        case "progress":
            token = params["_meta"]["progressToken"]
            send(method="notifications/progress", params={"progressToken": token, "progress": 1, "message": "m"})
            send(method="notifications/message", params={"level": "info", "data": "words"})
            send(id=id, result=result)
        case "large":
            write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"' % id + b"x" * arguments["size"] + b'"}}\n')
        case "list":
            send(id=id, result=[])
        case "error":
            send(id=id, error={"code": -32602, "message": "bad\narguments"})
        case "exit":
            sys.stderr.write("last words\n")
            sys.stderr.flush()
            write(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()[: arguments["kept"]])
            os._exit(arguments.get("code", 3))
        case "late":  # what it left behind has the last words
            send(id=id, result=result)
            parent = os.getpid()
            if os.fork() == 0:
                os.close(0)
                os.close(1)
                while os.getppid() == parent:
                    os.sched_yield()
                for _ in range(20_000):
                    os.sched_yield()
                os.write(2, b"last words\n")
            os._exit(3)
        case "deaf":
            os.close(0)
            threading.Event().wait()
        case "close":
            os.close(1)
        case "ask":
            asked[f"q{id}"] = id
            schema = {"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}}
            params = {"message": "Which?", "requestedSchema": schema}
            send(id=f"q{id}", method="elicitation/create", params=params)
        case "environment":
            result["content"][0]["text"] = json.dumps(dict(os.environ))
            send(id=id, result=result)
        case "where":
            result["content"][0]["text"] = json.dumps([os.getcwd(), os.getpid(), os.getpgid(0), os.getsid(0)])
            send(id=id, result=result)
        case "changed":
            send(method="notifications/tools/list_changed")
            send(id=id, result=result)
        case "wait":
            send(method="notifications/message", params={"level": "info", "data": "waiting"})
        case "stderr":
            sys.stderr.write("e" * arguments["size"] + "THE END")
            sys.stderr.flush()
            os._exit(0)
        case _:
            send(id=id, result=result)


def serve(message: Any) -> None:
    method, id = message.get("method"), message.get("id")
    if method == DIES_AT and not os.path.exists(MARK):
        with open(MARK, "w"):
            dying.append(id)
    if method is None:
        answer = json.dumps(message.get("result") or message.get("error"))
        send(id=asked.pop(id), result={"content": [{"type": "text", "text": answer}]})
    elif method in ("server/discover", "initialize"):
        open_(id, method)
    elif method == "tools/list":
        send(id=id, result={"tools": [TOOL]})
    elif method == "tools/call":
        call(id, message["params"])
    elif method == "ping":
        send(id=id, result={})
    elif method == "subscriptions/listen":
        params = {"notifications": message["params"]["notifications"]}
        send(method="notifications/subscriptions/acknowledged", params=params)
    elif method == "notifications/cancelled":
        send(method="notifications/message", params={"level": "info", "data": message["params"]["requestId"]})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "no such method"})


def main() -> None:
    if "stubborn" in MODE:  # neither the end of stdin nor a polite signal ends it
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if "polite" in MODE:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
    if "wrapper" in MODE:  # as npx does: the server is a grandchild
        own = [sys.executable, "-I", __file__, MODE.replace("wrapper", "stubborn")]
        subprocess.Popen(own).wait()
        return
    for line in sys.stdin.buffer:
        serve(json.loads(line))
    if "stubborn" in MODE or "polite" in MODE:
        threading.Event().wait()


if __name__ == "__main__":
    main()
