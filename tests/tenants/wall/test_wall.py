"""The wall holds under random walks, and a wall from which one tenant's name was taken is seen to leak."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.tenants.wall.walk import Leak, walk
from zorivest_rpc.mcp.call import Scope
from zorivest_rpc.mcp.methods import inputs, tools
from zorivest_rpc.serving import audience, pipeline
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.tenants import context, resolve

Mutant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("seed", range(3))
async def test_no_walk_finds_a_way_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    done = await walk(monkeypatch, str(tmp_path), 1500, seed)
    assert done.steps >= 1500


def pool(patch: pytest.MonkeyPatch) -> None:
    """One backend, with its connections and its token, serves whoever comes."""
    backend = context.TenantContext.backend
    known: dict[str, Any] = {}

    def shared(self: Any) -> Any:
        return known.setdefault("one", backend(self)) if not known else known["one"]

    patch.setattr(context.TenantContext, "backend", shared)


def confirmation(patch: pytest.MonkeyPatch) -> None:
    """A token or a question is bound to no tenant."""
    made = Confirmation.__init__

    def forgets(self: Any, *given: Any, **options: Any) -> None:
        made(self, *given, **{**options, "tenant": lambda call: ""})

    patch.setattr(Confirmation, "__init__", forgets)


def receipts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline, "_scope_name", lambda call: "")


def seal(patch: pytest.MonkeyPatch) -> None:
    binding = inputs.binding
    patch.setattr(inputs, "binding", lambda exchange, method, call: binding(exchange, method, call)[:-1])


def view(patch: pytest.MonkeyPatch) -> None:
    key = audience.Audience._view_key
    patch.setattr(audience.Audience, "_view_key", lambda self, session, who: key(self, session, audience.THE_ONE))


def limits(patch: pytest.MonkeyPatch) -> None:
    of = audience.Audience.callable_tools
    patch.setattr(audience.ActingFor, "has_toolset", lambda self, name: True)
    patch.setattr(audience.Audience, "callable_tools", lambda self, session, name, who: of(self, session, name))


def task(patch: pytest.MonkeyPatch) -> None:
    """The call inside a task forgets on whose behalf it is."""
    made: Any = vars(tools)["Call"]

    def forgets(*given: Any) -> Any:
        inside = len(given) == 6 and type(given[3]).__name__ == "TaskRecord"
        return made(*given[:5], Scope()) if inside else made(*given)

    patch.setattr(tools, "Call", forgets)


def tasks(patch: pytest.MonkeyPatch) -> None:
    """All tasks work on behalf of whom the first one worked for."""
    made: Any = vars(tools)["Call"]
    first: list[Any] = []

    def remembers(*given: Any) -> Any:
        if len(given) == 6 and type(given[3]).__name__ == "TaskRecord":
            first.append(given[5])
            return made(*given[:5], first[0])
        return made(*given)

    patch.setattr(tools, "Call", remembers)


def metrics(patch: pytest.MonkeyPatch) -> None:
    record = Metrics.record
    patch.setattr(
        Metrics, "record", lambda self, tool, ms, size, failed, client="": record(self, tool, ms, size, failed)
    )


def figures(patch: pytest.MonkeyPatch) -> None:
    """Everybody is shown the figures of everybody."""
    shown = Metrics.prometheus
    patch.setattr(Metrics, "prometheus", lambda self, clients=None: shown(self))


def grants(patch: pytest.MonkeyPatch) -> None:
    """The principal is dropped from what is granted."""

    def first(self: Any, principal: str) -> Any:
        return next(iter(self._grants.values()))

    patch.setattr(resolve.Resolver, "grants", first)


def resolution(patch: pytest.MonkeyPatch) -> None:
    """A tenant that is known need not be granted."""
    scope = resolve.Resolver._scope

    def knows(self: Any, principal: str, granted: Any, id: str, given: Any) -> Any:
        everybody = frozenset(self.tenants.tenants)
        return scope(self, principal, msgspec.structs.replace(granted, known=everybody), id, given)

    patch.setattr(resolve.Resolver, "_scope", knows)


def principal(patch: pytest.MonkeyPatch) -> None:
    """All access keys are the same caller."""
    patch.setattr(resolve, "principal_of_access", lambda access: "access")


def dispatched(patch: pytest.MonkeyPatch) -> None:
    """A tool that is called by name may name another client."""
    patch.setattr(
        resolve.Resolver,
        "check_inner",
        lambda self, scope, given: {name: value for name, value in given.items() if name != "clientId"},
    )


def echo(patch: pytest.MonkeyPatch) -> None:
    """What a result says of its client is remembered from the first one."""
    made, first = context.scope_of, []

    def remembers(tenant: Any, own: Any, *, by_header: bool = False) -> Any:
        scope = made(tenant, own, by_header=by_header)
        first.append(scope)
        return msgspec.structs.replace(scope, meta=first[0].meta)

    patch.setattr(context, "scope_of", remembers)


def question(patch: pytest.MonkeyPatch) -> None:
    made = context.scope_of

    def silent(tenant: Any, own: Any, *, by_header: bool = False) -> Any:
        return msgspec.structs.replace(made(tenant, own, by_header=by_header), preface="")

    patch.setattr(context, "scope_of", silent)


def key(patch: pytest.MonkeyPatch) -> None:
    """The key of the first tenant that needed one opens every backend."""
    from zorivest_rpc.tenants.config import Tenant

    of, first = Tenant.key_of, []

    def remembers(self: Any, environ: Any) -> Any:
        first.append(of(self, environ))
        return first[0]

    patch.setattr(Tenant, "key_of", remembers)


MUTANTS: list[Mutant] = [
    pool,
    confirmation,
    receipts,
    seal,
    view,
    limits,
    task,
    tasks,
    metrics,
    figures,
    grants,
    resolution,
    principal,
    dispatched,
    echo,
    question,
    key,
]


def leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
async def test_a_wall_without_one_brick_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    mutant(monkeypatch)
    with pytest.raises((Leak, BaseExceptionGroup)) as seen:
        await walk(monkeypatch, str(tmp_path), 2500, 5)
    causes = list(leaves(seen.value))
    assert {type(cause) for cause in causes} == {Leak}, causes
