"""What of other servers each caller sees and may use, worked out from the rules alone and compared with the product.

The rules: a server is offered to a client if it is `shared`, or if the client is among its `tenants`; with a token for
each client the connection is that client's own; one that says neither is for none, and a disabled one is not there. A
client's own `toolsets` bound what it has. A caller has what the clients of its key have, and names one of them each
time; one that is missing, wrong, unknown, disabled or not granted is refused and nothing is asked of any server."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.gateway.fake import serving
from tests.tenants.books import NOTE, Book
from tests.tenants.wall.stage import LEGACY, MODERN, Desk, access_rule, served

pytestmark = pytest.mark.asyncio(loop_scope="module")
ENABLED = ("acme", "beta", "small")
IDS = (*ENABLED, "cold")  # `cold` is disabled
SMALL = ("core", "mcp-all", "mcp-own-bs")  # the toolsets of `small`
GRANTS: dict[str, tuple[str, ...]] = {
    "acme": ("acme",), "beta": ("beta",), "small": ("small",), "cold": ("cold",), "two": ("acme", "beta"), "every": IDS,
}  # fmt: skip


class Entry(NamedTuple):
    """One server of the file, as an operator writes it."""

    name: str
    shared: bool = False
    tenants: tuple[str, ...] = ()
    own: bool = False
    enabled: bool = True

    def toml(self, url: str) -> str:
        lines = [f'name = "{self.name}"', f'endpoint = "{url}"', f"enabled = {str(self.enabled).lower()}"]
        lines += ["shared = true"] if self.shared else []
        lines += [f"tenants = {json.dumps(self.tenants)}"] if self.tenants else []
        if self.own:
            lines.append("auth_bearer_env_by_tenant = { " + ", ".join(f'{id} = "T_{id}"' for id in self.tenants) + " }")
        else:
            lines.append('auth_bearer_env = "T_all"')
        return "[[profiles.default.mcp_servers]]\n" + "\n".join(lines) + "\n"


SOME = {"a": ("acme",), "b": ("beta",), "ab": ("acme", "beta"), "bs": ("beta", "small"), "ac": ("acme", "cold")}
ENTRIES = (
    Entry("all", shared=True),
    Entry("none"),
    *(Entry(f"for-{key}", tenants=ids) for key, ids in SOME.items()),
    *(Entry(f"own-{key}", tenants=ids, own=True) for key, ids in SOME.items()),
    Entry("off-all", shared=True, enabled=False),
    Entry("off-own", tenants=("acme",), own=True, enabled=False),
    Entry("both", shared=True, tenants=("acme",)),
)

# --- the oracle


def has(entry: Entry, id: str) -> bool:
    if not entry.enabled or id not in ENABLED or not (entry.shared or id in entry.tenants):
        return False
    return id != "small" or f"mcp-{entry.name}" in SMALL


def said(entry: Entry, id: str) -> str:
    """How the server answers: the credential is the one of the connection."""
    return f"{entry.name} by {id if entry.own else 'all'}"


def granted(key: str) -> list[str]:
    return [id for id in GRANTS[key] if id in ENABLED]


def refusal(key: str, given: Any) -> str | None:
    """The code for a client that cannot be resolved."""
    if given is None or (isinstance(given, str) and not given.strip()):
        return "client_missing"
    if given == "no/id":
        return "client_invalid"
    return None if given.strip().lower() in granted(key) else "client_unknown"


def lists(key: str) -> tuple[set[str], set[str], set[str], set[str]]:
    """Tools, prompts, resources and templates."""
    pairs = [(entry, id) for entry in ENTRIES for id in granted(key) if has(entry, id)]
    return (
        {f"{entry.name}__look" for entry, _ in pairs},
        {f"{entry.name}__brief" for entry, _ in pairs},
        {f"upstream:{entry.name}:{NOTE}?clientId={id}" for entry, id in pairs},
        {f"upstream:{entry.name}:{NOTE}/{{page}}{{?clientId}}" for entry, _ in pairs},
    )


# --- the product


class Caller:
    """A caller of one era; each request is complete in itself, or belongs to a session."""

    def __init__(self, desk: Desk, session: str | None) -> None:
        self._desk = desk
        self._session = session

    async def ask(self, method: str, params: dict[str, Any], **headers: Any) -> Any:
        if self._session is None:
            _, answer = await self._desk.modern(method, params, **headers)
        else:
            own = {"Mcp_Session_Id": self._session, "MCP_Protocol_Version": LEGACY}
            _, answer, _ = await self._desk.post(method, params, **own, **headers)
        return answer


class House(NamedTuple):
    books: dict[str, Book]
    callers: dict[tuple[str, str], Caller]  # by key and era


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    path: Path = tmp_path_factory.mktemp("oracle")
    patch = pytest.MonkeyPatch()
    for id in (*IDS, "all"):
        patch.setenv(f"T_{id}", f"t-{id}")
    books = {entry.name: Book(entry.name, ("modern", "legacy")[n % 2]) for n, entry in enumerate(ENTRIES)}
    rules = [access_rule(f"key-{name}", list(ids), name) for name, ids in GRANTS.items()]
    async with AsyncExitStack() as stack:
        text = '[profiles.default]\ntool_confirmation_mode = "never"\nconfirm_destructive = false\n'
        for entry in ENTRIES:
            text += entry.toml(await stack.enter_async_context(serving(books[entry.name].handle)))
        (path / "config.toml").write_text(text)
        each: dict[str, Any] = {"cold": {"enabled": False}, "small": {"toolsets": list(SMALL)}}
        place = await stack.enter_async_context(
            served(patch, path, list(IDS), "--config", str(path / "config.toml"), access=rules, **each)
        )
        gateway = place.journal.gateway()
        assert gateway is not None
        gateway.start()
        await gateway.settle(60)
        callers = {}
        for key in GRANTS:
            desk = place.desk(f"key-{key}")
            callers[key, MODERN] = Caller(desk, None)
            callers[key, LEGACY] = Caller(desk, await desk.open())
        yield House(books, callers)
        for book in books.values():
            book.end()
    patch.undo()


CASES = pytest.mark.parametrize(("key", "era"), [*itertools.product(GRANTS, (MODERN, LEGACY))])


@CASES
async def test_lists_are_those_of_the_clients_that_the_key_opens(house: House, key: str, era: str) -> None:
    ask = house.callers[key, era].ask
    tools, prompts, resources, templates = lists(key)
    found = {
        member: (await ask(method, {}))["result"][member]
        for method, member in (
            ("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        )
    }  # fmt: skip
    assert {each["name"] for each in found["tools"] if "__" in each["name"]} == tools
    theirs = [each for each in found["prompts"] if "__" in each["name"]]
    assert {each["name"] for each in theirs} == prompts
    for prompt in theirs:
        assert [(each["name"], each["required"]) for each in prompt["arguments"]] == [
            ("clientId", True),
            ("topic", True),
        ]
    uris = [each["uri"] for each in found["resources"] if each["uri"].startswith("upstream:")]
    assert len(uris) == len(set(uris))
    assert set(uris) == resources
    shown = [each["uriTemplate"] for each in found["resourceTemplates"]]
    assert {each for each in shown if each.startswith("upstream:")} == templates
    assert len(shown) == len(set(shown))


GIVEN = (*IDS, "nothing", " ACME ", "no/id", None, " ")


@CASES
async def test_what_is_asked_for_a_client_is_answered_by_its_own_connection_or_by_none(
    house: House, key: str, era: str
) -> None:
    caller = house.callers[key, era]
    for entry, given in itertools.product(ENTRIES, GIVEN):
        book = house.books[entry.name]
        for use in (call, get, read, complete):
            asked = len(book.seen)
            found = await use(caller, entry, given)
            assert found == expect(use.__name__, key, era, entry, given), (use.__name__, entry, given)
            if found[0] != "good":
                assert len(book.seen) == asked, "it was asked of no server"


def expect(use: str, key: str, era: str, entry: Entry, given: Any) -> tuple[str, Any]:
    code, id = refusal(key, given), (given or "").strip().lower()
    is_known = any(has(entry, each) for each in granted(key))
    if use == "complete":  # no refusal: a convenience while a person types
        return ("good", said(entry, id)) if code is None and has(entry, id) else ("none", is_known)
    if use == "call" and not any(has(entry, each) for each in ENABLED):
        return "error", (-32602, None)  # there is no such tool
    if use == "get" and not is_known:
        return "error", (-32602, None)
    if code is None and has(entry, id):
        return "good", (said(entry, id), id)
    if code is None:
        code = "client_toolset"
        if use == "read":
            return "error", (-32602 if era == MODERN else -32002, None)
    return ("refused", code) if use == "call" else ("error", (-32602, code))


async def call(caller: Caller, entry: Entry, given: Any) -> tuple[str, Any]:
    arguments = {} if given is None else {"clientId": given}
    answer = await caller.ask("tools/call", {"name": f"{entry.name}__look", "arguments": arguments})
    if "error" in answer:
        return "error", (answer["error"]["code"], answer["error"].get("data", {}).get("code"))
    result = answer["result"]
    if result.get("isError"):
        return "refused", result["_meta"]["com.zorivest/error"]["code"]
    id = result["_meta"]["com.zorivest/client"]["id"]
    words, link, inside = result["content"]
    assert words["text"] == f"{said(entry, id)} (client {id})" or words["text"] == said(entry, id)
    assert_links(entry, id, link, inside)
    return "good", (said(entry, id), id)


async def get(caller: Caller, entry: Entry, given: Any) -> tuple[str, Any]:
    arguments = {"topic": "x"} | ({} if given is None else {"clientId": given})
    answer = await caller.ask("prompts/get", {"name": f"{entry.name}__brief", "arguments": arguments})
    if "error" in answer:
        return "error", (answer["error"]["code"], (answer["error"].get("data") or {}).get("code"))
    result = answer["result"]
    id = result["_meta"]["com.zorivest/client"]["id"]
    ours, words, link, inside = [message["content"] for message in result["messages"]]
    assert ours["text"] == f'Act for the client "{id}" alone: pass it as clientId with every tool.'
    assert words["text"].endswith(": {'topic': 'x'}"), "the server is not told of the client"
    assert_links(entry, id, link, inside)
    return "good", (words["text"].partition(":")[0], id)


async def read(caller: Caller, entry: Entry, given: Any) -> tuple[str, Any]:
    client = "" if given is None else f"?clientId={given.replace(' ', '%20').replace('/', '%2F')}"
    uri = f"upstream:{entry.name}:{NOTE}{client}"
    answer = await caller.ask("resources/read", {"uri": uri})
    if "error" in answer:
        return "error", (answer["error"]["code"], (answer["error"].get("data") or {}).get("code"))
    result = answer["result"]
    id = result["_meta"]["com.zorivest/client"]["id"]
    (content,) = result["contents"]
    assert content["uri"] == f"upstream:{entry.name}:{NOTE}?clientId={id}"
    assert content["text"].endswith(f": {NOTE}")
    return "good", (content["text"].partition(":")[0], id)


async def complete(caller: Caller, entry: Entry, given: Any) -> tuple[str, Any]:
    ref = {"type": "ref/prompt", "name": f"{entry.name}__brief"}
    context = {} if given is None else {"context": {"arguments": {"clientId": given}}}
    params = {"ref": ref, "argument": {"name": "topic", "value": "x"}, **context}
    answer = await caller.ask("completion/complete", params)
    if "error" in answer:
        assert answer["error"]["code"] == -32602
        return "none", False
    values = answer["result"]["completion"]["values"]
    return ("good", values[0]) if values else ("none", True)


def assert_links(entry: Entry, id: str, link: Any, inside: Any) -> None:
    """What was given can be read, for the client that it was given for."""
    assert link["uri"] == f"upstream:{entry.name}:{NOTE}?clientId={id}"
    assert inside["resource"]["uri"] == f"upstream:{entry.name}:{NOTE}/2?clientId={id}"


async def test_ids_complete_to_those_that_are_granted(house: House) -> None:
    for (key, _), caller in house.callers.items():
        for ref in (
            {"type": "ref/prompt", "name": "all__brief"},
            {"type": "ref/resource", "uri": f"upstream:all:{NOTE}/{{page}}{{?clientId}}"},
        ):
            params = {"ref": ref, "argument": {"name": "clientId", "value": ""}}
            answer = await caller.ask("completion/complete", params)
            if not granted(key):
                assert answer["error"]["code"] == -32602
                continue
            assert answer["result"]["completion"]["values"] == sorted(granted(key))


async def test_each_server_saw_its_own_credentials_and_nothing_of_our_clients(house: House) -> None:
    """After all of the above."""
    for entry in ENTRIES:
        book = house.books[entry.name]
        expected = {"t-" + said(entry, id).rpartition(" ")[2] for id in IDS if id in entry.tenants or entry.shared}
        if not entry.enabled or entry.name == "none":
            expected = set()
        assert {book.whose(seen) for seen in book.seen} == expected, entry
        for seen in book.seen:
            headers = {name: value for name, value in seen.headers.items() if name != "Authorization"}
            told = (json.dumps(headers) + seen.body.decode()).lower()
            for word in ("clientid", "client-id", "desk", "zrv_", *IDS):
                assert word not in told, (entry, word, told)
