"""A tool as a value: its definition, the bytes that each revision lists it with, and its compiled validator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from zorivest_rpc.errors import CatalogError, InvalidArguments
from zorivest_rpc.mcp.protocol.headers import HeaderParams, header_params
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.revisions import Shape

if TYPE_CHECKING:
    from zorivest_rpc.mcp.catalog.intended import Spellings

__all__ = ["FORBIDDEN", "OPTIONAL", "REQUIRED", "Tool"]

FORBIDDEN, OPTIONAL, REQUIRED = "forbidden", "optional", "required"  # whether a call may, or must, become a task
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}\Z")
_NO_ARGUMENTS: Final = {"type": "object", "additionalProperties": False}
_DIALECTS: Final = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
_DEPTH, _NODES = 64, 5_000  # of one schema; far above what a model can read


class Tool:
    """Immutable after construction but for what it remembers: encoded fragments and validators, made at first use."""

    __slots__ = (
        "_checks",
        "_fragments",
        "definition",
        "header_params",
        "input_schema",
        "is_foreign",
        "name",
        "output_schema",
        "spellings",
        "task",
    )

    def __init__(
        self,
        name: str,
        description: str,
        input_schema: dict[str, Json] | None = None,
        *,
        title: str | None = None,
        output_schema: dict[str, Json] | None = None,
        annotations: dict[str, Json] | None = None,
        icons: list[Json] | None = None,
        meta: dict[str, Json] | None = None,
        task: str = FORBIDDEN,
    ) -> None:
        schema = _NO_ARGUMENTS if input_schema is None else input_schema
        self.name = name
        self.task = task
        self.input_schema = schema  # what arguments are judged by; a definition may show more of them
        self.is_foreign = False
        self.spellings: Spellings | None = None
        self.output_schema = output_schema
        self.header_params = _check_definition(name, description, schema, output_schema)
        optional = {"title": title, "outputSchema": output_schema, "annotations": annotations, "icons": icons}
        self.definition: dict[str, Json] = {"name": name, "description": description, "inputSchema": schema}
        self.definition |= {key: value for key, value in optional.items() if value is not None}
        if meta:
            self.definition["_meta"] = meta
        self._fragments: dict[Shape, bytes] = {}
        self._checks: dict[str, Callable[[Json], bool]] = {}

    @classmethod
    def from_checked_file(
        cls,
        name: str,
        input_schema: dict[str, Json],
        *,
        task: str = FORBIDDEN,
        spellings: Spellings | None = None,
        is_foreign: bool = False,
    ) -> Tool:
        """A tool whose file has been checked already; its definition comes with each presentation. The schema of a
        foreign one was written by another server."""
        tool = cls.__new__(cls)
        tool.is_foreign = is_foreign
        tool.name = name
        tool.task = task
        tool.input_schema = input_schema
        tool.spellings = spellings
        tool.header_params = {}
        tool.output_schema = None
        tool.definition = {"name": name, "inputSchema": input_schema}
        tool._fragments = {}
        tool._checks = {}
        return tool

    def present(self, definition: dict[str, Json]) -> Tool:
        """The same tool in other words: another definition around the same schemas, sharing their validators. An
        argument that the definition shows beyond them is taken out of a call before it is checked."""
        other = Tool.__new__(Tool)
        other.name = self.name
        other.task = self.task
        other.input_schema = self.input_schema
        other.is_foreign = self.is_foreign
        other.spellings = self.spellings
        shown = definition["inputSchema"]
        other.header_params = self.header_params if shown is self.input_schema else header_params(shown)
        other.definition = definition
        other.output_schema = definition.get("outputSchema")
        other._fragments = {}
        other._checks = self._checks
        return other

    def fragment(self, shape: Shape) -> bytes:
        """The definition as this shape lists it: compact, so that it can be spliced into any frame."""
        found = self._fragments.get(shape)
        if found is None:
            found = self._fragments[shape] = dumps(self.shape_definition(shape))
        return found

    def shape_definition(self, shape: Shape) -> dict[str, Json]:
        """The members that this shape lists, in a dict of their own."""
        shown = dict(self.definition)
        schema = self.output_schema
        if schema is not None and (
            shape is Shape.BASIC or (shape is not Shape.OPEN and schema.get("type") != "object")
        ):
            del shown["outputSchema"]
        if shape is Shape.TASKS and self.task != FORBIDDEN:
            shown["execution"] = {"taskSupport": self.task}
        return shown

    def check(self, arguments: dict[str, Json], taken: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """The arguments as the handler is given them, or InvalidArguments where they do not fit the input schema.

        `taken` are those that were taken out before: a call that is shown as an example has them too."""
        check = self._checks.get("inputSchema")
        if check is None:
            check = self._checks["inputSchema"] = _compile(self.input_schema)
        try:
            return arguments if check(arguments) else self._reconsider(arguments, check, taken)
        except ValueError:  # the validator goes 255 levels down and no further
            words = f'Invalid arguments for "{self.name}": nested too deeply.'
            raise InvalidArguments(words, next="Call again with a flatter value.") from None

    def _reconsider(
        self, arguments: dict[str, Json], check: Callable[[Json], bool], taken: Mapping[str, Json] | None
    ) -> dict[str, Json]:
        """A second look at what did not fit: what it was meant to say may."""
        from zorivest_rpc.mcp.catalog.intended import read_intended

        meant = read_intended(self.input_schema, arguments, self.spellings)
        if not check(meant):
            self._refuse(meant, taken)
        return meant

    def check_output(self, structured: Json) -> str | None:
        """What is wrong with a result that is about to be sent, or None."""
        schema = self.output_schema
        if schema is None:
            return None
        check = self._checks.get("outputSchema")
        if check is None:
            check = self._checks["outputSchema"] = _compile(schema)
        if check(structured):
            return None
        return "; ".join(_problems(schema, structured))

    def _refuse(self, arguments: dict[str, Json], taken: Mapping[str, Json] | None) -> None:
        """The judge has the last word, so that what is told is what it says."""
        from zorivest_rpc.mcp.catalog.explain import example, problems

        schema = self.input_schema
        found = problems(schema, arguments, is_foreign=self.is_foreign)
        if not found:
            return
        fitting = example(schema, arguments, is_foreign=self.is_foreign)
        advice = "See the tool's input schema and call again."
        if fitting and taken:
            rest = "" if fitting == "{}" else "," + fitting[1:-1]
            fitting = f"{dumps(taken)[:-1].decode()}{rest}}}"
        if fitting:
            advice = f"A call of the right form, with your own values: {fitting}"
        told = "; ".join(found)
        stop = "" if told.endswith("?") else "."
        raise InvalidArguments(f'Invalid arguments for "{self.name}": {told}{stop} {advice}', next=advice)


def _compile(schema: Json) -> Callable[[Json], bool]:
    from zorivest_rpc.mcp.catalog.compile import compile_schema

    return compile_schema(schema).is_valid  # type: ignore[no-any-return]


def _problems(schema: Json, value: Json) -> Iterator[str]:
    from zorivest_rpc.mcp.catalog.compile import compile_schema

    for number, error in enumerate(compile_schema(schema).iter_errors(value)):
        if number == 5:
            yield "and more"
            return
        where = ".".join(str(step) for step in error.instance_path) or "arguments"
        yield f"{where}: {error.message}"


def _check_definition(name: str, description: str, schema: Json, output: Json) -> HeaderParams:
    """Everything about a definition that can be judged without a validator library."""
    if not _NAME.match(name):
        raise CatalogError(name, "/name", "a tool name has 1 to 128 characters of A-Z a-z 0-9 _ . -")
    if not description.strip():
        raise CatalogError(name, "/description", "a tool needs a description")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise CatalogError(name, "/inputSchema", 'the root of an input schema has "type": "object"')
    for pointer, root in (("/inputSchema", schema), ("/outputSchema", output)):
        for problem in _unservable(root):
            raise CatalogError(name, pointer, problem)
    try:
        return header_params(schema)
    except ValueError as exc:
        raise CatalogError(name, "/inputSchema", str(exc)) from None


def _unservable(root: Json) -> Iterator[str]:
    """Dialects that we cannot judge, references that would have to be fetched, and schemas without measure."""
    if root is None:
        return
    if not isinstance(root, dict):
        yield "a schema is an object"
        return
    dialect = root.get("$schema")
    if dialect is not None and str(dialect).rstrip("#") not in _DIALECTS:
        yield f"dialect {dialect} is not supported; use {_DIALECTS[0]}"
    nodes, stack = 0, [(root, 0)]
    while stack:
        node, depth = stack.pop()
        nodes += 1
        if depth > _DEPTH or nodes > _NODES:
            yield f"more than {_DEPTH} levels or {_NODES} nodes"
            return
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                yield f"$ref {reference} points outside the schema"
            stack += [(child, depth + 1) for child in node.values()]
        elif isinstance(node, list):
            stack += [(child, depth + 1) for child in node]
