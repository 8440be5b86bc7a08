"""Every exception that zorivest-rpc raises, as one tree.

    ZorivestError
    ├── ProtocolError(code, message, data, id)   the request is wrong           -> JSON-RPC error
    ├── ToolError(text)                          the call could not be done     -> result with isError: true
    │   └── InvalidArguments
    ├── CatalogError(file, pointer, problem)     a definition is wrong          -> start-up stops, all problems listed
    └── ConfigError(source, problem)             a flag, variable or file is    -> exit code 2, one line on stderr

Who can act on it decides the branch: a program, the model, or the operator.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CatalogError", "ConfigError", "InvalidArguments", "ProtocolError", "ToolError", "ZorivestError"]


class ZorivestError(Exception):
    """The root; never raised itself."""


class ProtocolError(ZorivestError):
    """A message that must be answered with a JSON-RPC error; `id` is None where none was readable."""

    def __init__(self, code: int, message: str, data: Any = None, id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = id


class ToolError(ZorivestError):
    """A call that could not be done; the model reads `text` and may try again.

    `code` names the refusal for programs and `next` the step that would help, in `_meta["com.zorivest/error"]`."""

    kind = "tool"

    def __init__(self, text: str, *, code: str = "failed", next: str | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.next = next


class InvalidArguments(ToolError):
    """Arguments that do not fit the tool's input schema."""

    kind = "validation"

    def __init__(self, text: str, *, next: str | None = None) -> None:
        super().__init__(text, code="invalid_arguments", next=next)


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
