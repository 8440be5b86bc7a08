"""What every caller does along the wall, whatever carries its requests."""

from __future__ import annotations

import json
import random
from typing import Any, TypeVar

from tests.tenants.wall.eye import Expected, check, look, names_in, part
from tests.tenants.wall.neighbours import Neighbours
from tests.tenants.wall.pages import CALLS, SILENT, Pages, page_id
from tests.tenants.wall.stage import MODERN, Backends

__all__ = ["BOUNDED", "DOES_TASKS", "ELICITS", "PAGED", "READS", "SYNC", "TENANTS", "Place", "Walker", "weigh"]

TENANTS = [f"tenant-{number:02}" for number in range(20)]
BOUNDED = "tenant-03"  # has the tools for taxes alone
PAGED = [TENANTS[number] for number in (0, 2, 4, 8, 15)]  # a page of each of them is observed
READS = ("list_trades", "get_settings", "list_bank_accounts", "get_round_trips", "list_brokers", "get_fee_breakdown")
SYNC: dict[str, Any] = {"broker_id": "b"}
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
DOES_TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
T = TypeVar("T")
SEVERAL = ("list_clients", "zorivest_diagnose")  # these may name all that are granted


def weigh(words: str) -> dict[str, int]:
    """`read 30 token 8`: what is done, and how often."""
    pairs = words.split()
    return dict(zip(pairs[::2], map(int, pairs[1::2]), strict=True))


class Place:
    """What stands behind one server, and the figures of all callers."""

    def __init__(self, backends: Backends, others: Neighbours, pages: Pages, expected: Expected) -> None:
        self.backends = backends
        self.others = others
        self.pages = pages
        self.expected = expected


class Walker:
    """One caller; how its requests travel is its subclass's."""

    name = ""  # who it is to the server: what belongs to one of two names is refused to the other

    def __init__(self, granted: list[str], rng: random.Random, place: Place) -> None:
        self.granted = granted
        self.rng = rng
        self.place = place
        self.expected = place.expected
        self.able: dict[str, Any] = {}
        self._acts, self._weights = zip(*self.acts().items(), strict=True)

    def acts(self) -> dict[str, int]:
        """What it does, and how often."""
        common = "read 30 stranger 8 token 8 listing 5 resource 10 prompt 6 completion 8 sealed 8 toolsets 5 inner 8"
        rarer = "clients 3 diagnosis 2 stop 1 task 5 neighbour 12 lone 3 sealed_question 6 page 10 note 4 report 2"
        return weigh(f"{common} {rarer} pretence 1")

    async def ask(self, method: str, params: dict[str, Any], era: str | None = None) -> dict[str, Any]:
        """The whole answer, in one of the two eras, or in any."""
        raise NotImplementedError

    def can_modern(self) -> bool:
        """Whether it can send modern requests."""
        raise NotImplementedError

    @property
    def can_answer(self) -> bool:
        """Whether it gets questions as answers that it brings back."""
        return self.can_modern() and "elicitation" in self.able

    def _take(self, held: list[tuple[str, str, T]]) -> tuple[str, str, T]:
        """What some caller holds, more often than not this one."""
        own = [number for number, each in enumerate(held) if each[0] == self.name]
        return held.pop(self.rng.choice(own) if own and self.rng.random() < 0.5 else self.rng.randrange(len(held)))

    def did(self, what: str) -> None:
        """Something that a walk has to have tried to be worth anything."""
        self.expected.done[what] += 1

    def pick(self) -> str:
        return self.rng.choice(self.granted)

    async def call(self, tool: str, tenant: str, *, era: str | None = None, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": {"clientId": tenant, **arguments}}
        return self.judge(await self.ask("tools/call", params, era), tool, tenant)

    def judge(self, answer: dict[str, Any], tool: str, tenant: str) -> dict[str, Any]:
        """An answer to a call for this tenant: it names this one and has nothing of another."""
        text = look(answer, self.granted, tenant, tool)
        if "result" in answer and tenant in self.granted:
            given = answer["result"].get("_meta", {})
            check(given.get("com.zorivest/client", {}).get("id") == tenant, f"{tool} names another client", answer)
            receipt = given.get("com.zorivest/receipt")
            check(receipt is None or receipt.get("tenant") == tenant, f"{tool} has another's receipt", answer)
            refused = str(given.get("com.zorivest/error", {}).get("code", "")).startswith("client_")
            check(refused or tool in SEVERAL or names_in(text) <= {tenant}, f"{tool} for {tenant} tells more", answer)
        return answer

    async def step(self) -> None:
        self.expected.raise_faults()
        self.expected.steps += 1
        act = self.rng.choices(self._acts, self._weights)[0]
        await getattr(self, act)()

    # --- the tools of the journal

    async def read(self) -> None:
        tenant = self.pick()
        tool = self.rng.choice(READS)
        answer = await self.call(tool, tenant)
        if tenant == BOUNDED:
            return
        self.expected.calls[tenant] += 1
        check(f"book-of-{tenant}." in json.dumps(answer), f"{tool} did not reach {tenant}", answer)

    async def stranger(self) -> None:
        others = [each for each in TENANTS if each not in self.granted] or ["nobody"]
        tenant = self.rng.choice(others)
        tool, arguments = self.rng.choice([("list_trades", {}), ("common__echo", {"text": "x"}), *CALLS])
        answer = await self.ask("tools/call", {"name": tool, "arguments": {"clientId": tenant, **arguments}})
        look(json.dumps(answer).replace(f'ID: \\"{tenant}\\"', ""), self.granted, None, "a stranger's name")
        code = part(answer, "result", "_meta", "com.zorivest/error", "code")
        check(code == "client_unknown", "a stranger is known", answer)

    async def token(self) -> None:
        """A confirmation that was given to one caller for one tenant serves that caller for that tenant alone."""
        era = MODERN if self.can_modern() else None  # where there is a session a token belongs to it
        if self.expected.tokens and self.rng.random() < 0.4:
            owner, whose, token = self._take(self.expected.tokens)
            tenant = whose if owner != self.name and whose in self.granted else self.pick()
            await self._spend(owner, whose, token, tenant, era)
            return
        tenant = self.pick()
        asked: dict[str, Any] = {"action": "sync_broker", "params_summary": "x"}
        answer = await self.call("get_confirmation_token", tenant, era=era, **asked)
        if part(answer, "result").get("isError"):
            return
        token = part(answer, "result", "structuredContent", "token")
        told = part(answer, "result", "structuredContent", "instruction")
        check(tenant in told, "the instruction is another's", answer)
        if self.rng.random() < 0.5:
            await self._spend(self.name, tenant, token, self.pick(), era)
        else:
            self.expected.tokens.append((self.name, tenant, token))

    async def _spend(self, owner: str, whose: str, token: str, tenant: str, era: str | None) -> None:
        answer = await self.call("sync_broker", tenant, era=era, **SYNC, confirmation_token=token)
        result = part(answer, "result")
        code = result.get("_meta", {}).get("com.zorivest/error", {}).get("code", "")
        asked_first = result.get("resultType") == "input_required"
        refused = asked_first or code == "guard_blocked" or code.startswith("confirmation_")
        if (owner, whose) != (self.name, tenant):
            check(refused or BOUNDED in (tenant, whose), f"a token of {owner} {whose} opened {tenant}", answer)
            self.did("a token was refused to another" if owner != self.name else "a token was refused for another")

    async def inner(self) -> None:
        outer, inside = self.pick(), self.pick()
        wanted: dict[str, Any] = {"name": "list_trades", "arguments": {"clientId": inside}}
        answer = await self.call("call_tool", outer, **wanted)
        if inside != outer:
            code = part(answer, "result", "_meta").get("com.zorivest/error", {}).get("code")
            check(code == "client_conflict", f"a call for {outer} went on for {inside}", answer)
        elif outer != BOUNDED:
            self.expected.calls[outer] += 1

    async def sealed(self) -> None:
        """The answer to a question that was put for one tenant, brought back for any; so the modern era does it."""
        if not self.can_answer:
            return
        if self.expected.states and self.rng.random() < 0.6:
            await self._bring_back()
            return
        tenant = self.pick()
        params = {"name": "sync_broker", "arguments": {"clientId": tenant, **SYNC}}
        self._keep_state(
            self.judge(await self.ask("tools/call", params, MODERN), "sync_broker", tenant), tenant, params
        )

    async def sealed_question(self) -> None:
        """As above, where another server asks."""
        tenant = self.pick()
        if not self.can_answer or not self.place.others.has("own", tenant):
            return
        params = {"name": "own__ask", "arguments": {"clientId": tenant, "text": "x"}}
        self._keep_state(self.judge(await self.ask("tools/call", params, MODERN), "own__ask", tenant), tenant, params)

    def _keep_state(self, answer: dict[str, Any], tenant: str, params: dict[str, Any]) -> None:
        result = answer.get("result", {})
        if result.get("resultType") != "input_required":
            return
        ((key, question),) = result["inputRequests"].items()
        message = question["params"]["message"]
        check(message.startswith(f"For client Desk of {tenant}: "), "a question names another client", answer)
        field = next(iter(question["params"]["requestedSchema"]["properties"]))
        yes = {key: {"action": "accept", "content": {field: True}}}
        again = {**params, "inputResponses": yes, "requestState": result["requestState"]}
        self.expected.states.append((self.name, tenant, again))

    async def _bring_back(self) -> None:
        owner, whose, again = self._take(self.expected.states)
        keeps = whose in self.granted and self.rng.random() < 0.5
        tenant = whose if keeps else self.pick()
        params = {**again, "arguments": {**again["arguments"], "clientId": tenant}}
        answer = self.judge(await self.ask("tools/call", params, MODERN), again["name"], tenant)
        if (owner, whose) != (self.name, tenant):
            held = "error" in answer or BOUNDED in (tenant, whose) or part(answer, "result").get("isError")
            check(held, f"an answer given to {owner} for {whose} was taken for {tenant}", answer)
            self.did("a state was refused to another" if owner != self.name else "a state was refused for another")
        elif "result" in answer:
            self.did(f"an answer was brought back to {again['name']}")

    async def task(self) -> None:
        """Work that outlives its request is still its tenant's, and its caller's."""
        if not self.can_modern() or not self.able.get("extensions"):
            return
        if self.expected.tasks and self.rng.random() < 0.4:
            owner, id = self.rng.choice(self.expected.tasks)
            method = self.rng.choice(("tasks/get", "tasks/cancel", "tasks/update"))
            more: dict[str, Any] = {"inputResponses": {}} if method == "tasks/update" else {}
            if owner != self.name:
                answer = await self.ask(method, {"taskId": id, **more}, MODERN)
                check(part(answer, "error", "code") == -32602, f"a task of {owner} was shown to {self.name}", answer)
                self.did("a task was refused to another")
            return
        tenant = self.pick()
        answer = await self.call("simulate_drawdown", tenant, era=MODERN)
        if tenant != BOUNDED:
            check(f"book-of-{tenant}." in json.dumps(answer), f"a task did not reach {tenant}", answer)

    async def finish(self, id: str) -> dict[str, Any]:
        """The answer of a task, which has outlived its request: a result, or the error with which it failed."""
        self.expected.tasks = [*self.expected.tasks[-20:], (self.name, id)]
        asked: set[str] = set()
        for _ in range(10_000):
            now = part(await self.ask("tasks/get", {"taskId": id}, MODERN), "result")
            if now["status"] == "input_required":
                asked |= names_in(json.dumps(now["inputRequests"]))
                no = {key: {"action": "decline"} for key in now["inputRequests"]}
                await self.ask("tasks/update", {"taskId": id, "inputResponses": no}, MODERN)
            elif now["status"] != "working":
                answer = {name: now[name] for name in ("result", "error") if name in now}
                named = answer.get("result", {}).get("_meta", {}).get("com.zorivest/client", {}).get("id")
                check(asked <= {named}, f"a task for {named} asked about {asked}", answer)
                self.did("a task asked" if asked else "a task ended")
                return answer
        raise AssertionError("a task does not end")

    async def stop(self) -> None:
        """Every guard of the caller's own tenants, and no other, in one call."""
        if not self.can_answer:
            return
        params: dict[str, Any] = {"name": "zorivest_emergency_stop", "arguments": {"clientId": "*"}}
        asked = await self.ask("tools/call", params, MODERN)
        ((key, question),) = part(asked, "result", "inputRequests").items()
        check(question["params"]["message"].startswith("For every client: "), "a question of one client", asked)
        yes = {key: {"action": "accept", "content": {"confirm": True}}}
        again = {**params, "inputResponses": yes, "requestState": part(asked, "result", "requestState")}
        for tenant in self.granted:
            self.expected.locks[tenant] += 1
        answer = await self.ask("tools/call", again, MODERN)
        self.place.backends.locked.difference_update(self.granted)
        look(answer, self.granted, None, "an emergency stop")
        told = [each["id"] for each in part(answer, "result", "structuredContent", "clients")]
        check(told == self.granted, "a stop for other clients", answer)
        self.did("every guard of a caller was locked")

    # --- what is shown

    async def listing(self) -> None:
        method = self.rng.choice(("tools/list", "resources/list", "resources/templates/list", "prompts/list"))
        answer = await self.ask(method, {})
        look(answer, self.granted, self.granted, method)
        if method != "tools/list":
            return
        enum = part(answer, "result", "tools", 0, "inputSchema", "properties", "clientId", "enum")
        check(enum == self.granted, "a list of another caller", answer)
        shown = {tool["name"] for tool in answer["result"]["tools"]}
        lone = {f"own__of_{each[-2:]}" for each in self.place.others.whose["own"] or () if each != BOUNDED}
        own = {f"own__of_{each[-2:]}" for each in self.granted}
        check(shown & lone == own & lone, "tools of another's server", sorted(shown & lone))

    async def clients(self) -> None:
        answer = await self.ask("tools/call", {"name": "list_clients", "arguments": {}})
        look(answer, self.granted, None, "list_clients")
        listed = [each["id"] for each in part(answer, "result", "structuredContent", "clients")]
        check(listed == self.granted, "the clients of another caller", answer)

    async def diagnosis(self) -> None:
        tenant = self.pick()
        answer = await self.call("zorivest_diagnose", tenant, verbose=True)
        told = part(answer, "result", "structuredContent")
        everything = set(self.granted) == set(TENANTS)
        check(("tenants" in told) is everything, "a diagnosis of another caller", answer)
        states = {each["name"] for each in told["upstreams"]}
        own = {name for name in self.place.others.whose if self.place.others.has(name, tenant)}
        check(states == own, f"the servers of {tenant} are others", told["upstreams"])

    async def resource(self) -> None:
        tenant = self.rng.choice(TENANTS)
        kind = self.rng.choice(("zorivest://guard", "pipeline://policies/schema", "zorivest://toolsets"))
        uri = f"{kind}?clientId={tenant}"
        answer = await self.ask("resources/read", {"uri": uri})
        if tenant in self.granted:
            look(answer, self.granted, tenant, uri)
            if kind.startswith("pipeline") and tenant != BOUNDED:
                check(f"book-of-{tenant}." in json.dumps(answer), f"{uri} did not reach {tenant}", answer)
        else:
            check(answer.get("error", {}).get("code") == -32602, f"{uri} was read", answer)
            look(json.dumps(answer).replace(f'ID: \\"{tenant}\\"', ""), self.granted, None, uri)

    async def prompt(self) -> None:
        tenant = self.pick()
        answer = await self.ask("prompts/get", {"name": "weekly_review", "arguments": {"clientId": tenant}})
        look(answer, self.granted, tenant, "a prompt")
        check(names_in(json.dumps(part(answer, "result", "messages"))) == {tenant}, "a prompt names another", answer)

    async def completion(self) -> None:
        tenant = self.rng.choice(TENANTS)
        trades = ("prompt", "trade_post_mortem", ("exec_id", "clientId"))
        toolsets = ("resource", "zorivest://toolsets/{toolset}{?clientId}", ("toolset", "clientId"))
        kind, name, arguments = self.rng.choice((trades, toolsets))
        ref = {"type": f"ref/{kind}", "name" if kind == "prompt" else "uri": name}
        argument = {"name": self.rng.choice(arguments), "value": ""}
        params = {"ref": ref, "argument": argument, "context": {"arguments": {"clientId": tenant}}}
        answer = await self.ask("completion/complete", params)
        look(answer, self.granted, tenant if tenant in self.granted else None, "a completion")
        if argument["name"] == "exec_id" and tenant not in (*self.place.backends.locked, BOUNDED):
            values = part(answer, "result", "completion", "values")
            check(not values or tenant in self.granted, f"trades of {tenant} were offered", answer)
            self.expected.done["trades were offered"] += bool(values)

    async def toolsets(self) -> None:
        tenant = self.pick()
        answer = await self.call("list_available_toolsets", tenant)
        names = [entry["name"] for entry in part(answer, "result", "structuredContent", "toolsets")]
        check((names == ["core", "discovery", "tax"]) is (tenant == BOUNDED), "another's toolsets", answer)
        own = {name for name in self.place.others.whose if self.place.others.has(name, tenant)}
        shown = {name.removeprefix("mcp-") for name in names if name.startswith("mcp-")}
        check(shown == (set() if tenant == BOUNDED else own), f"another's servers for {tenant}", answer)

    # --- other servers

    async def neighbour(self) -> None:
        tenant, server = self.pick(), self.rng.choice(("common", "some", "own"))
        reaches = tenant != BOUNDED and self.place.others.has(server, tenant)
        if reaches and server == "own":
            self.expected.forwarded[tenant] += 1
        answer = await self.call(f"{server}__echo", tenant, text="x")
        text = json.dumps(part(answer, "result"))
        if reaches:
            wanted = f"book-of-{tenant}." if server == "own" else f"x (client {tenant})"
            check(wanted in text or "guard_blocked" in text, f"{server} did not answer for {tenant}", answer)
            if "guard_blocked" in text and server == "own":
                self.expected.forwarded[tenant] -= 1
        else:
            code = part(answer, "result", "_meta", "com.zorivest/error", "code")
            check(code == "client_toolset", f"{server} is not for {tenant}", answer)

    async def lone(self) -> None:
        """A tool that one tenant's server alone has."""
        own = self.place.others.whose["own"] or []
        tenant, other = self.pick(), self.rng.choice([each for each in own if each != BOUNDED])
        if other in self.granted and self.rng.random() < 0.5:
            tenant = other
        tool = f"own__of_{other[-2:]}"
        answer = await self.ask("tools/call", {"name": tool, "arguments": {"clientId": tenant, "text": "x"}})
        text = look(answer, self.granted, tenant, tool)
        reached = f"book-of-{tenant}." in text
        check(tenant == other or not reached, f"a tool of {other} ran for {tenant}", answer)
        if tenant == other and reached and "guard_blocked" not in text:
            self.expected.forwarded[tenant] += 1
            self.did("a tool of one tenant's server ran")

    # --- pages

    async def page(self) -> None:
        tenant = self.pick()
        tool, arguments = self.rng.choice(CALLS)
        other = self.rng.choice([each for each in PAGED if each != tenant])
        foreign = self.rng.random() < 0.2 and tool in ("observe", "query_dom")
        more = {"page": page_id(other)} if foreign else {}
        answer = await self.call(tool, tenant, **arguments, **more)
        text = json.dumps(answer)
        tells = SILENT.isdisjoint(str(value) for value in arguments.values())
        if tenant in PAGED and tells and not foreign and not part(answer, "result").get("isError"):
            check(f"book-of-{tenant}" in text, f"{tool} does not show the page of {tenant}", answer)
            self.did("a page was shown")
        if (
            foreign or "guard_blocked" in text
        ):  # a page of this tenant may have that id, and then it is shown with this tenant's mark
            return
        check(tenant in PAGED or f"book-of-{tenant}" not in text, f"{tenant} has a page", answer)

    async def note(self) -> None:
        own = [each for each in self.granted if each in PAGED]
        tenant = self.rng.choice(own)
        kind = self.rng.choice(("save", "load", "list"))
        about: dict[str, Any] = {"action": "store", "store_action": kind, "namespace": "n"}
        if kind == "save":
            about |= {"key": f"of-{tenant[-2:]}", "data": {"of": f"book-of-{tenant}"}}
        elif kind == "load":
            about["key"] = "of-" + self.rng.choice([tenant, *PAGED])[-2:]
        answer = await self.call("configure", tenant, **about)
        if kind == "load" and about["key"] != f"of-{tenant[-2:]}":
            check(part(answer, "result").get("isError"), f"{tenant} has a note {about['key']}", answer)
            self.did("a note of another was not found")

    async def report(self) -> None:
        page = self.rng.choice(list(self.place.pages.of.values()))
        await page.report()

    async def pretence(self) -> None:
        tenant, other = self.rng.sample(PAGED, 2)
        if self.rng.random() < 0.3:
            await self.place.pages.pretend(tenant, other)
