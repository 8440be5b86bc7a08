"""What every tool with logic of its own is given: the backend of a call, the tool's own file, and the form of a result.

A write goes through `write`: it carries a key, leaves a receipt, and a lost answer says with which tool to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

from msgspec import UNSET

from zorivest_rpc.errors import BackendError, InvalidArguments, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import Call, Outcome, fail, give
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Reply, Request
from zorivest_rpc.serving.catalog.spec import ToolSpec, defaults
from zorivest_rpc.serving.tools.receipt import RECEIPT_KEY, explain_lost, receipt
from zorivest_rpc.serving.tools.rest import BackendFor, Shape

__all__ = ["Kit", "WriteResult", "bad_answer", "entries", "flag_error", "segment"]


class WriteResult(NamedTuple):
    """The answer to a write, and what accounts for it."""

    reply: Reply
    receipt: dict[str, Json]


class Kit:
    """`specs` are the tools by name; without `shape` every client is shown all of a payload. `desktop` says whether the
    backend of a call is one that a desktop application belongs to, so that a text may point the user to it."""

    def __init__(
        self,
        backend_for: BackendFor,
        specs: Mapping[str, ToolSpec],
        *,
        shape: Shape | None = None,
        tenant: Callable[[Call], str] | None = None,
        desktop: Callable[[Call], bool] = lambda call: True,
    ) -> None:
        self.backend_for = backend_for
        self.desktop = desktop
        self._specs = specs
        self._shape = shape
        self._tenant = tenant
        self._defaults: dict[str, dict[str, Json]] = {}

    def spec(self, call: Call) -> ToolSpec:
        return self._specs[call.name]

    def arguments(self, call: Call) -> dict[str, Json]:
        """What was given, over the defaults of the tool's file."""
        constant = self._defaults.get(call.name)
        if constant is None:
            constant = self._defaults[call.name] = defaults(self.spec(call))
        return {**constant, **call.arguments}

    async def write(
        self,
        call: Call,
        method: str,
        path: str,
        body: Json = UNSET,
        *,
        repeatable: bool = False,
        urgent: bool = False,
    ) -> WriteResult:
        """One request that changes something."""
        spec, backend, key = self.spec(call), self.backend_for(call), uuid4().hex
        try:
            reply = await backend.ask(Request(method, path, body=body, repeatable=repeatable, key=key, urgent=urgent))
        except OutcomeUnknown as error:
            raise explain_lost(spec, error) from None
        tenant = "" if self._tenant is None else self._tenant(call)
        return WriteResult(reply, receipt(spec, method, path, reply, backend, tenant, key))

    def give(
        self,
        call: Call,
        payload: dict[str, Json],
        *,
        message: str | None = None,
        receipt: dict[str, Json] | None = None,
    ) -> Outcome:
        """A result as this client is shown it; `message` is for the model and always shown."""
        shown = payload if self._shape is None else self._shape(call, payload)
        outcome = give(shown if message is None else {**shown, "message": message})
        if receipt is not None:
            outcome.meta = {RECEIPT_KEY: receipt}
        return outcome


def flag_error(payload: dict[str, Json], error: ToolError) -> Outcome:
    """A failure that has more to say than a sentence: the object as it is, marked as the error that it reports."""
    outcome = give(payload)
    outcome.is_error = True
    outcome.meta = fail(error).meta
    return outcome


def bad_answer(path: str, reply: Reply, expected: str) -> BackendError:
    """The backend said yes and then something that cannot be used."""
    return BackendError(
        reply.status,
        f"The backend answered {path} without {expected}. Its version may not fit this server's; zorivest_diagnose "
        "shows it.",
        code="bad_answer",
        next="Compare the versions with zorivest_diagnose.",
    )


def entries(value: Json) -> list[dict[str, Json]]:
    """The objects of a list that comes bare or as `items`; what is no object is left out."""
    found = value.get("items") if isinstance(value, dict) else value
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def segment(name: str, value: str) -> str:
    """One segment of a path. Dots alone would climb to another route, whatever their encoding."""
    if value in ("", ".", ".."):
        words = f'{name}: "{value}" is not an identifier. Give the exact one and call again.'
        raise InvalidArguments(words, next="Give the exact one and call again.")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        words = f"{name}: it is not valid Unicode. Give the exact identifier."
        raise InvalidArguments(words, next="Give the exact identifier.") from None
