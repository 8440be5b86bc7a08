"""The rules of a catalogue, compiled once, and the state of each tenant that they are read against.

Made where some rule is in play; a journal without one never imports it. What one session is shown is `view.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from zorivest_rpc.exposure.rules import Rule, compile_rule, describe
from zorivest_rpc.exposure.state import Atoms, ExposureState, StateNames
from zorivest_rpc.exposure.view import ExposedView, Manner
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.protocol.content import text
from zorivest_rpc.mcp.protocol.revisions import Shape

__all__ = ["ALONE", "Engine"]

ALONE: Final = "default"  # the tenant of a server without tenancy
UNLOCKED: Final = "com.zorivest/unlocked"
_MOST_VIEWS: Final = 64


class Engine:
    """`on_change` is called after each write that changed some list; without tenants there is one, named `ALONE`."""

    view_type: Final = ExposedView

    def __init__(
        self, names: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]], *, strict: bool = False
    ) -> None:
        self.names = msgspec.convert(names, StateNames)
        self.atoms = Atoms()
        self.rules: dict[str, Rule] = {name: compile_rule(given, self.atoms) for name, given in rules.items()}
        self.given = rules
        self.reads = {name: rule.reads(self.atoms) for name, rule in self.rules.items()}
        self.strict = strict
        self.on_change: Callable[[], None] = lambda: None
        self.after_step: Callable[[], None] = lambda: None
        """What follows the answer of a call that opened a gate."""
        self._states: dict[str, ExposureState] = {}
        self._views: dict[tuple[object, ...], ExposedView] = {}

    def state(self, tenant: str = ALONE) -> ExposureState:
        """The state of a tenant, made with its first use; it lives as long as the process."""
        found = self._states.get(tenant)
        if found is None:
            found = self._states[tenant] = ExposureState(self.names, self.atoms, self._announce_change)
        return found

    def _announce_change(self) -> None:
        self.on_change()

    def forget_views(self) -> None:
        """The catalogue is another one."""
        self._views.clear()

    def recall(self, key: tuple[object, ...]) -> ExposedView | None:
        """The view of this key as the state is now, if it is still there; the least recently used go first."""
        found = self._views.pop(key, None)
        if found is not None:
            self._views[key] = found
            found.refresh()
        return found

    def view(
        self,
        key: tuple[object, ...],
        tenants: Sequence[str],
        listed: Iterable[Tool],
        also_found: Iterable[Tool],
        manner: Manner,
        shape: Shape,
        profile: object,
    ) -> ExposedView:
        """`tenants` are those whose data the list follows; the key tells them apart too."""
        states = self.states(tenants)
        made = ExposedView(listed, also_found, self.rules, states, manner, shape, profile=profile, strict=self.strict)
        while len(self._views) >= _MOST_VIEWS:
            del self._views[next(iter(self._views))]
        self._views[key] = made
        return made

    def states(self, tenants: Sequence[str]) -> list[ExposureState]:
        return [self.state(tenant) for tenant in tenants or (ALONE,)]

    def explain(self, view: ExposedView, name: str) -> dict[str, Any] | None:
        """What a tool's rule says, what is known of it for this list, and what came of that; None without a rule."""
        given = self.given.get(name)
        if given is None:
            return None
        states = view.states
        modes = given.get("modes", {}).get("values", {})
        told: dict[str, Any] = {
            "listed": not view.is_hidden(name),
            "when": describe(given.get("show", True)),
            "unknown": given.get("unknown", "show"),
            "hidden_modes": {mode: describe(modes[mode].get("show", True)) for mode in view.hidden_modes(name)},
            "state": {
                counter: [state.counters[counter] for state in states]
                for counter in sorted(self.reads[name])
                if counter in self.names.counters
            },
        }
        if "gate" in given:
            told["gate"] = {
                "flag": given["gate"],
                "applies": view.manner.gates,
                "open": any(state.flags[given["gate"]] for state in states),
            }
        return told

    # --- first steps

    def wrap(self, name: str, handler: Handler) -> Handler:
        """The handler, and what its first success means for lists."""
        rule = self.rules.get(name)
        if rule is None or not rule.raises:
            return handler
        flag = rule.raises

        async def step(call: Call) -> Outcome:
            outcome = await handler(call)
            if not outcome.is_error and self.state(call.scope.name or ALONE).raise_flag(flag):
                self._tell_unlocked(call, flag, outcome)
            return outcome

        return step

    def _tell_unlocked(self, call: Call, flag: str, outcome: Outcome) -> None:
        """Once, to the client whose call it was; the others see it in their lists."""
        outcome.after = [*(outcome.after or ()), self.after_step]
        names = call.view.waiting_for(flag) if isinstance(call.view, ExposedView) else ()
        if names:
            outcome.meta = {**(outcome.meta or {}), UNLOCKED: list(names)}
            outcome.content = [*outcome.content, text(f"Now also listed: {', '.join(names)}.")]
