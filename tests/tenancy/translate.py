"""What a client of one journal says, as a client of a server with several clients says it, and the answers back.

`Translator.send` adds `clientId` where the contract has a place for it; `Translator.take` takes off what tenancy adds
to an answer and nothing else. What has to be there and is not is a `Missing`, so that a difference in either direction
fails the test that meets it. Nothing here knows a transport, a server or pytest."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

__all__ = ["ID", "Missing", "Translator", "dump", "read", "with_client", "without_client"]

Json = Any
ID: Final = "sole-desk"
ARGUMENT: Final = "clientId"
META: Final = "com.zorivest/client"
ERROR: Final = "com.zorivest/error"
RECEIPT: Final = "com.zorivest/receipt"
WRITTEN: Final = f" (client {ID})"
PREFACE: Final = f"For client {ID}: "
IN_FRONT: Final = f'Client "{ID}": '
INSTRUCTION: Final = f'Act for the client "{ID}" alone: pass it as clientId with every tool.'
PROMPT_ARGUMENT: Final = {
    "name": ARGUMENT,
    "description": "Client to act for; list_clients names them",
    "required": True,
}
DESCRIPTION: Final = "Client to act for. Call list_clients for valid values."
LISTING: Final = "list_clients"
DISCOVERY: Final = "discovery"
UNASKED: Final = "The guard has not been asked yet; zorivest_diagnose tells whether it is locked."
SEVERAL: Final = "Tenant: one of several for each call; list_clients names them, clientId chooses."
MOST_ASKED: Final = 50_000
STOPS_ALL: Final = "zorivest_emergency_stop"
BY_URI: Final = ("resources/read", "resources/subscribe", "resources/unsubscribe")
UNRESOLVED: Final = "client_"  # how the codes begin of calls that named no client


class Missing(Exception):
    """Tenancy is on, and something that it adds is not there."""


def read(frame: bytes) -> Json:
    """A frame as values; None for one that is no JSON."""
    try:
        return orjson.loads(frame)
    except orjson.JSONDecodeError:
        return None


def dump(value: Json) -> bytes:
    return orjson.dumps(value)


class Translator:
    """Of one conversation. `writes` tells of a tool whether its result is signed; None where that is not known.

    `tasks` are shared by all conversations of a server: the tool behind each task, as (name, arguments). `backend` is
    what the instructions of the one journal say of its backend."""

    def __init__(
        self,
        writes: Callable[[str], bool | None],
        tasks: dict[str, tuple[str, Json]] | None = None,
        backend: str = "embedded",
    ) -> None:
        self._backend = backend
        self._writes = writes
        self._asked: dict[bytes, tuple[str, dict[str, Json]]] = {}  # what was asked, by the id of the request
        self._tasks = {} if tasks is None else tasks

    # --- to the server

    def send(self, message: Json) -> Json:
        """The same message with the client named in it; what is no request that names one stays as it is."""
        if isinstance(message, list):
            return [self.send(each) for each in message]
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return message
        method, params = message["method"], message.get("params")
        if "id" in message:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked[dump(message["id"])] = (method, params if isinstance(params, dict) else {})
        if not isinstance(params, dict):
            return message
        named = self._name_client(method, params)
        return message if named is params else {**message, "params": named}

    def _name_client(self, method: str, params: dict[str, Json]) -> dict[str, Json]:
        if method in ("tools/call", "prompts/get"):
            arguments = params.get("arguments")
            if arguments is None:
                arguments = {}
            if not isinstance(arguments, dict) or ARGUMENT in arguments or params.get("name") == LISTING:
                return params
            return {**params, "arguments": {ARGUMENT: ID, **arguments}}
        if method in BY_URI and isinstance(params.get("uri"), str):
            return {**params, "uri": with_client(params["uri"])}
        if method == "subscriptions/listen" and isinstance(wanted := params.get("notifications"), dict):
            uris = wanted.get("resourceSubscriptions")
            if isinstance(uris, list):
                named = [with_client(uri) if isinstance(uri, str) else uri for uri in uris]
                return {**params, "notifications": {**wanted, "resourceSubscriptions": named}}
        if method == "completion/complete" and isinstance(params.get("ref"), dict):
            return _complete_for_client(params)
        return params

    # --- from the server

    def take(self, message: Json) -> Json:
        """The message as a server of one journal sends it."""
        if isinstance(message, list):
            return [self.take(each) for each in message]
        if not isinstance(message, dict):
            return message
        if isinstance(message.get("method"), str):
            return self._take_event(message)
        # not forgotten with the first answer: over HTTP events are sent again
        method, asked = self._asked.get(dump(message.get("id")), ("", {}))
        result = message.get("result")
        if not isinstance(result, dict):
            return message
        taken = self._take_result(method, asked, result)
        return message if taken is result else {**message, "result": taken}

    def _take_event(self, message: dict[str, Json]) -> dict[str, Json]:
        method, params = message["method"], message.get("params")
        if not isinstance(params, dict):
            return message
        if method == "elicitation/create":
            return {**message, "params": {**params, "message": without_preface(params["message"])}}
        if method == "notifications/resources/updated":
            return {**message, "params": {**params, "uri": without_client(params["uri"])}}
        if method == "notifications/subscriptions/acknowledged":
            wanted = params.get("notifications", {})
            if "resourceSubscriptions" in wanted:
                uris = [without_client(uri) for uri in wanted["resourceSubscriptions"]]
                return {**message, "params": {**params, "notifications": {**wanted, "resourceSubscriptions": uris}}}
        if method == "notifications/message" and isinstance(data := params.get("data"), dict) and "tenant" in data:
            _demand(data["tenant"] == ID, f"a log line of another tenant: {data}")
            rest = {key: value for key, value in data.items() if key != "tenant"}
            return {**message, "params": {**params, "data": rest}}
        return message

    def _take_result(self, method: str, asked: dict[str, Json], result: dict[str, Json]) -> dict[str, Json]:
        match method:
            case "initialize" | "server/discover":
                words = result.get("instructions")
                return result if words is None else {**result, "instructions": _take_instructions(words, self._backend)}
            case "tools/list":
                return _take_tools(asked, result)
            case "prompts/list":
                return {**result, "prompts": [_take_prompt(each) for each in result["prompts"]]}
            case "resources/list":
                return {**result, "resources": [_take_resource(each) for each in result["resources"]]}
            case "resources/templates/list":
                return {**result, "resourceTemplates": [_take_template(each) for each in result["resourceTemplates"]]}
            case "resources/read":
                return self._take_read(result)
            case "prompts/get":
                return self._take_messages(result)
            case "tools/call":
                return self._take_call(str(asked.get("name")), asked.get("arguments"), result)
            case "tasks/result":
                name, arguments = self._tasks.get(str(asked.get("taskId")), ("", None))
                return self._take_call(name, arguments, result)
            case "tasks/get":
                return self._take_task(asked, result)
            case _:
                return result

    def _take_task(self, asked: dict[str, Json], result: dict[str, Json]) -> dict[str, Json]:
        name, arguments = self._tasks.get(str(asked.get("taskId")), ("", None))
        if isinstance(inner := result.get("result"), dict):
            result = {**result, "result": self._take_call(name, arguments, inner)}
        if isinstance(questions := result.get("inputRequests"), dict):
            result = {**result, "inputRequests": _take_questions(questions)}
        return result

    def _take_read(self, result: dict[str, Json]) -> dict[str, Json]:
        result = _without_mark(result, "a resource that was read")
        if "contents" not in result:
            return _take_round(result)
        return {**result, "contents": [{**each, "uri": without_client(each["uri"])} for each in result["contents"]]}

    def _take_messages(self, result: dict[str, Json]) -> dict[str, Json]:
        result = _without_mark(result, "a prompt")
        if "messages" not in result:
            return _take_round(result)
        messages = result["messages"]
        first = messages[0]["content"].get("text", "") if messages else ""
        if first == INSTRUCTION:  # of another server, whose texts are its own
            return {**result, "messages": [{**each, "content": _take_link(each["content"])} for each in messages[1:]]}
        taken = []
        for each in messages:
            content = each["content"]
            content = _take_link(content)
            if isinstance(words := content.get("text"), str):
                _demand(
                    words.startswith(INSTRUCTION + "\n\n"), f"a prompt that does not name the client: {words[:80]!r}"
                )
                content = {**content, "text": words.removeprefix(INSTRUCTION + "\n\n")}
            taken.append({**each, "content": content})
        return {**result, "messages": taken}

    def _take_call(self, name: str, arguments: Json, result: dict[str, Json]) -> dict[str, Json]:
        """The result of a call, or the task that it became, or what it wants to know first."""
        error = result.get("_meta", {}).get(ERROR, {})
        if str(error.get("code")).startswith(UNRESOLVED):
            return result
        if name == LISTING:
            return result
        result = _without_mark(result, f"a result of {name}")
        for task in (result.get("task"), result):
            if isinstance(task, dict) and isinstance(id := task.get("taskId"), str):
                self._tasks[id] = (name, arguments)
                return result
        if "content" not in result:
            return _take_round(result)
        result = {**result, "content": [_take_link(each) for each in result["content"]]}
        meta = result.get("_meta", {})
        if isinstance(receipt := meta.get(RECEIPT), dict):
            _demand(receipt.get("tenant") == ID, f"a receipt of {name} that names no client: {receipt}")
            result = {**result, "_meta": {**meta, RECEIPT: {**receipt, "tenant": "default"}}}
        if name == "call_tool" and isinstance(arguments, dict):
            name = str(arguments.get("name"))
        if result.get("isError"):
            result = _take_failure(error, result)
            # what does not fit its schema is shown behind the refusal, as it came
            return self._take_signature(name, result) if error.get("code") == "bad_result" else result
        result = self._take_signature(name, result)
        return _take_told(name, result)

    def _take_signature(self, name: str, result: dict[str, Json]) -> dict[str, Json]:
        """The words at the end of a write's last text; a read has none, and where one has them they stay."""
        writes = self._writes(name)
        if writes is False:
            return result
        content = list(result["content"])
        index = next((at for at in range(len(content) - 1, -1, -1) if content[at].get("type") == "text"), None)
        if index is None:
            return result
        words = content[index]["text"]
        if writes:
            _demand(words.endswith(WRITTEN), f"the text of a write by {name} names no client: {words[-80:]!r}")
        content[index] = {**content[index], "text": words.removesuffix(WRITTEN)}
        return {**result, "content": content}


# --- URIs


def with_client(uri: str) -> str:
    return f"{uri}{'&' if '?' in uri else '?'}{ARGUMENT}={ID}"


def without_client(uri: str) -> str:
    for mark in "?&":
        if uri.endswith(end := f"{mark}{ARGUMENT}={ID}"):
            return uri.removesuffix(end)
    raise Missing(f"a URI without the client: {uri}")


# --- parts of answers


def _demand(holds: bool, words: str) -> None:
    if not holds:
        raise Missing(words)


def without_preface(words: str) -> str:
    _demand(words.startswith(PREFACE), f"a question that names no client: {words!r}")
    return words.removeprefix(PREFACE)


def _without_mark(result: dict[str, Json], what: str) -> dict[str, Json]:
    meta = result.get("_meta", {})
    _demand(meta.get(META) == {"id": ID, "name": None}, f"{what} does not say whose it is: {meta}")
    rest = {key: value for key, value in meta.items() if key != META}
    if rest:
        return {**result, "_meta": rest}
    return {key: value for key, value in result.items() if key != "_meta"}


def _take_link(block: dict[str, Json]) -> dict[str, Json]:
    """A block that names a resource of another server names it as the list does."""
    inner = block.get("resource")
    if block.get("type") == "resource_link" and block["uri"].startswith("upstream:"):
        return {**block, "uri": without_client(block["uri"])}
    if block.get("type") == "resource" and isinstance(inner, dict) and inner["uri"].startswith("upstream:"):
        return {**block, "resource": {**inner, "uri": without_client(inner["uri"])}}
    return block


def _take_questions(questions: dict[str, Json]) -> dict[str, Json]:
    return {key: _take_question(each) for key, each in questions.items()}


def _take_question(question: Json) -> Json:
    if question.get("method") != "elicitation/create":
        return question
    params = question["params"]
    return {**question, "params": {**params, "message": without_preface(params["message"])}}


def _take_round(result: dict[str, Json]) -> dict[str, Json]:
    """What is wanted before there is a result."""
    if isinstance(questions := result.get("inputRequests"), dict):
        return {**result, "inputRequests": _take_questions(questions)}
    return result


def _take_failure(error: dict[str, Json], result: dict[str, Json]) -> dict[str, Json]:
    """Text that is a backend's has the client in front, text that asks for a confirmation the words of a question."""
    content = list(result["content"])
    words = content[0].get("text", "")
    if isinstance(told := read(words.encode()), dict) and str(told.get("error")).startswith(IN_FRONT):
        told = {**told, "error": told["error"].removeprefix(IN_FRONT)}  # a report with the failure in it
        words = dump(told).decode()
        result = {**result, "structuredContent": told} if "structuredContent" in result else result
    elif str(error.get("class")).upper() == "BACKEND":
        _demand(words.startswith(IN_FRONT), f"a failure of a backend that names no client: {words!r}")
    words = words.removeprefix(IN_FRONT).removeprefix(PREFACE)
    content[0] = {**content[0], "text": _without_example(words)}
    taken = {**result, "content": content}
    if isinstance(next := error.get("next"), str):
        taken["_meta"] = {**result["_meta"], ERROR: {**error, "next": _without_example(next)}}
    return taken


def _without_example(words: str) -> str:
    """An example of a call shows what every call says."""
    return words.replace(f'"{ARGUMENT}":"{ID}",', "").replace(f'"{ARGUMENT}":"{ID}"', "")


def _take_tools(asked: dict[str, Json], result: dict[str, Json]) -> dict[str, Json]:
    tools = [_take_tool(tool) for tool in result["tools"] if tool["name"] != LISTING]
    if "cursor" not in asked and "nextCursor" not in result:
        _demand(
            len(tools) == len(result["tools"]) - 1, f"{LISTING} is listed {len(result['tools']) - len(tools)} times"
        )
    taken = {**result, "tools": tools}
    return {**taken, "cacheScope": "private"} if "cacheScope" in result else taken


def _take_tool(tool: dict[str, Json]) -> dict[str, Json]:
    key = "inputSchema" if "inputSchema" in tool else "parameters"
    return {**tool, key: _take_schema(tool["name"], tool[key])}


def _take_schema(name: str, schema: dict[str, Json]) -> dict[str, Json]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    about = {"type": "string", "description": DESCRIPTION, "enum": [ID, *(["*"] if name == STOPS_ALL else [])]}
    _demand(next(iter(properties), None) == ARGUMENT, f"{name}: clientId is not its first property")
    _demand(properties[ARGUMENT] == about, f"{name}: clientId is described otherwise: {properties[ARGUMENT]}")
    _demand(required[:1] == [ARGUMENT], f"{name}: clientId is not the first that it requires")
    taken = {**schema, "properties": {key: value for key, value in properties.items() if key != ARGUMENT}}
    if required[1:]:
        return {**taken, "required": required[1:]}
    return {key: value for key, value in taken.items() if key != "required"}


def _take_prompt(prompt: dict[str, Json]) -> dict[str, Json]:
    arguments = prompt.get("arguments", [])
    _demand(arguments[:1] == [PROMPT_ARGUMENT], f"the prompt {prompt['name']} does not begin with the client")
    if arguments[1:]:
        return {**prompt, "arguments": arguments[1:]}
    return {key: value for key, value in prompt.items() if key != "arguments"}


def _take_resource(resource: dict[str, Json]) -> dict[str, Json]:
    return {**resource, "uri": without_client(resource["uri"]), "name": resource["name"].removesuffix(f"-{ID}")}


def _take_template(template: dict[str, Json]) -> dict[str, Json]:
    text = template["uriTemplate"]
    for variable in ("{?clientId}", "{&clientId}"):
        if text.endswith(variable):
            return {**template, "uriTemplate": text.removesuffix(variable)}
    raise Missing(f"a template without the client: {text}")


def _complete_for_client(params: dict[str, Json]) -> dict[str, Json]:
    ref, context = params["ref"], params.get("context")
    if isinstance(uri := ref.get("uri"), str):
        ref = {**ref, "uri": f"{uri}{{{'&' if '?' in uri else '?'}{ARGUMENT}}}"}
    context = context if isinstance(context, dict) else {}
    arguments = context.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    return {**params, "ref": ref, "context": {**context, "arguments": {ARGUMENT: ID, **arguments}}}


# --- what results tell of tools, counts and clients


def _take_told(name: str, result: dict[str, Json]) -> dict[str, Json]:
    """The JSON of a result, as text and as structure."""
    change = TOLD.get(name)
    if change is None:
        return result
    content = [_take_json_text(change, each) for each in result["content"]]
    if isinstance(structured := result.get("structuredContent"), dict):
        return {**result, "content": content, "structuredContent": change(structured)}
    return {**result, "content": content}


def _take_json_text(change: Callable[[Json], Json], block: dict[str, Json]) -> dict[str, Json]:
    told = read(block.get("text", "").encode())
    return {**block, "text": dump(change(told)).decode()} if isinstance(told, dict) else block


def _take_toolsets(told: dict[str, Json]) -> Json:
    toolsets = [_one_less(each, "tool_count") if each["name"] == DISCOVERY else each for each in told["toolsets"]]
    return _one_less({**told, "toolsets": toolsets}, "total_tools")


def _take_toolset(told: dict[str, Json]) -> Json:
    told = _take_definitions(told)
    if told.get("name") != DISCOVERY:
        return told
    tools = [each for each in told["tools"] if each["name"] != LISTING]
    _demand(len(tools) == len(told["tools"]) - 1, f"{DISCOVERY} has no {LISTING}")
    return _one_less({**told, "tools": tools}, "tool_count")


def _take_matches(told: dict[str, Json]) -> Json:
    told = _take_definitions(told)
    if not isinstance(told.get("matches"), list):
        return told
    return {**told, "matches": [each for each in told["matches"] if each["name"] != LISTING]}


def _take_report(told: dict[str, Json]) -> Json:
    tenants = [each["id"] for each in told.get("tenants", ())]
    _demand(tenants == [ID], f"the report names the clients {tenants}")
    rest = {key: value for key, value in told.items() if key != "tenants"}
    metrics = {key: value for key, value in told["metrics"].items() if key != "unresolved"}
    if "per_tool" in metrics:
        metrics["per_tool"] = {key.removesuffix(WRITTEN): value for key, value in metrics["per_tool"].items()}
    metrics["warnings"] = [words.replace(f"{WRITTEN}'", "'") for words in metrics["warnings"]]
    return {**rest, "metrics": metrics}


def _take_token(told: dict[str, Json]) -> Json:
    return {**told, "instruction": without_preface(told["instruction"])}


def _one_less(counted: dict[str, Json], key: str) -> dict[str, Json]:
    return {**counted, key: counted[key] - 1}


def _take_definitions(value: Json) -> Json:
    """Definitions are shown as the list shows them."""
    if isinstance(value, list):
        return [_take_definitions(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "inputSchema" in value and "name" in value:
        return value if value["name"] == LISTING else _take_tool(value)
    return {key: _take_definitions(each) for key, each in value.items()}


TOLD: Final[dict[str, Callable[[dict[str, Json]], Json]]] = {
    "list_available_toolsets": _take_toolsets,
    "describe_toolset": _take_toolset,
    "enable_toolset": _take_definitions,
    "tool_search": _take_matches,
    "zorivest_diagnose": _take_report,
    "get_confirmation_token": _take_token,
}


# --- the words for the model


def _take_instructions(words: str, backend: str) -> str:
    """Every count is that of a list with one tool more, and where the session is says that there are several."""
    _demand(SEVERAL in words, f"instructions that name no clients: {words[:200]!r}")
    where = f"Backend: {' '.join(backend.split())[:120]}."  # and of no client's guard anything is said
    words = words.replace(SEVERAL, f"{where} {UNASKED}")
    words = re.sub(r"^You have (\d+) tools", lambda found: f"You have {int(found[1]) - 1} tools", words)
    words = re.sub(r"(\d+) tools are listed", lambda found: f"{int(found[1]) - 1} tools are listed", words)
    return re.sub(rf"^- {DISCOVERY} \((\d+)", lambda found: f"- {DISCOVERY} ({int(found[1]) - 1}", words, flags=re.M)
