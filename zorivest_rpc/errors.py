"""Every exception that zorivest-rpc raises, as one tree.

    ZorivestError
    ├── ProtocolError(code, message, data, id)   the request is wrong           -> JSON-RPC error
    ├── ToolError(text)                          the call could not be done     -> result with isError: true
    │   ├── InvalidArguments, FileRefused, GuardLocked, ConfirmationRequired
    │   ├── BackendError(status), BackendUnreachable, OutcomeUnknown
    │   └── gateway.errors.ToolingError          another MCP server could not be used; one class per code
    ├── CatalogError(file, pointer, problem)     a definition is wrong          -> start-up stops, all problems listed
    └── ConfigError(source, problem)             a flag, variable or file is    -> exit code 2, one line on stderr

Who can act on it decides the branch: a program, the model, or the operator.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BackendError",
    "BackendUnreachable",
    "CatalogError",
    "ConfigError",
    "ConfirmationRequired",
    "FileRefused",
    "GuardLocked",
    "InvalidArguments",
    "OutcomeUnknown",
    "ProtocolError",
    "ToolError",
    "ZorivestError",
]


class ZorivestError(Exception):
    """The root; never raised itself."""


class ProtocolError(ZorivestError):
    """A message that must be answered with a JSON-RPC error; `id` is None where none was readable.

    `status` is that of the answer over HTTP, where nothing else decides it."""

    status = 400

    def __init__(self, code: int, message: str, data: Any = None, id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = id


class ToolError(ZorivestError):
    """A call that could not be done; the model reads `text` and may try again.

    `code` names the refusal for programs and `next` the step that would help, in `_meta["com.zorivest/error"]`.
    `problem` is what happened without what to do, for an error that is told inside another one."""

    kind = "tool"

    def __init__(self, text: str, *, code: str = "failed", next: str | None = None, problem: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.next = next
        self.problem = problem or text

    def about(self) -> dict[str, Any]:
        """What programs are told of it."""
        told: dict[str, Any] = {"class": self.kind, "code": self.code}
        if self.next:
            told["next"] = self.next
        return told


class InvalidArguments(ToolError):
    """Arguments that do not fit the tool's input schema."""

    kind = "validation"

    def __init__(self, text: str, *, next: str | None = None) -> None:
        super().__init__(text, code="invalid_arguments", next=next)


class FileRefused(ToolError):
    """A file on this machine that may not or cannot be read."""

    kind = "file"


class GuardLocked(ToolError):
    """The guard refused the call, or could not be asked, which counts as a refusal."""

    kind = "guard"

    def __init__(self, reason: str, *, desktop: bool = True, locked_by: str | None = None) -> None:
        """`desktop`: the backend is one with a desktop application, where it can be unlocked as well. A lock that a
        person set is theirs to release, so that nothing here tells a model how."""
        if locked_by == "person":
            ways = "GUI → Settings → MCP Guard, the console, or " if desktop else ""
            release = f'Only a person can unlock it: {ways}"zorivest-rpc unlock" in a terminal.'
            next = "Tell the user that a person stopped the tools, and wait for them."
        else:
            release = (
                f"Unlock via {'GUI → Settings → MCP Guard, or via ' if desktop else ''}zorivest_emergency_unlock tool."
            )
            next = "Ask the user; zorivest_emergency_unlock lifts the lock."
        super().__init__(f"⛔ MCP guard blocked this call: {reason}. {release}", code="guard_blocked", next=next)
        self.reason = reason
        self.locked_by = locked_by

    @classmethod
    def without_answer(cls, problem: str, next: str | None = None) -> GuardLocked:
        """The guard's own answer is missing; without it nothing that it protects may run. `next` is what would help."""
        refused = cls("guard_unavailable")
        refused.code = "guard_unavailable"
        refused.next = next or "Call again; zorivest_diagnose shows the state of the backend."
        refused.problem = f"⛔ MCP guard blocked this call: the guard could not be asked. {problem}"
        refused.text = f"{refused.problem} {refused.next}"
        refused.args = (refused.text,)
        return refused


class ConfirmationRequired(ToolError):
    """A gated call without a confirmation; `code` says which kind of confirmation is missing."""

    kind = "confirmation"


class BackendError(ToolError):
    """The backend answered, and the answer is a refusal or cannot be used. `detail` is its own word, unshortened.

    `reported` is its own code for the refusal, where it gave one; `code` is ours."""

    kind = "backend"

    def __init__(
        self,
        status: int,
        text: str,
        *,
        code: str = "backend_error",
        next: str | None = None,
        problem: str | None = None,
        reported: str | None = None,
        detail: Any = None,
    ) -> None:
        super().__init__(text, code=code, next=next, problem=problem)
        self.status = status
        self.reported = reported
        self.detail = detail


class BackendUnreachable(ToolError):
    """There is no answer, and nothing was changed by asking."""

    kind = "backend"

    def __init__(
        self, text: str, *, code: str = "backend_unreachable", next: str | None = None, problem: str | None = None
    ) -> None:
        super().__init__(text, code=code, next=next, problem=problem)


class OutcomeUnknown(ToolError):
    """A request was sent and its answer never came: it may or may not have been done, so it is never sent again.

    Of a request that changes nothing `problem` is all there is to tell."""

    kind = "backend"

    def __init__(self, text: str, *, next: str | None = None, problem: str | None = None) -> None:
        super().__init__(text, code="outcome_unknown", next=next, problem=problem)


class CatalogError(ZorivestError):
    """A definition (tool file, registered tool) that cannot be served."""

    def __init__(self, file: str, pointer: str, problem: str) -> None:
        super().__init__(f"{file}{pointer and '#' + pointer}: {problem}")
        self.file = file
        self.pointer = pointer
        self.problem = problem


class ConfigError(ZorivestError):
    """A flag, variable or file that the operator has to change."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}")
        self.source = source
        self.problem = problem
