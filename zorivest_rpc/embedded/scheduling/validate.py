"""Checks a policy document and reports everything that is wrong with it at once.

Beyond the schema: references point backwards, the schedule can fire, statements compile inside the SQL sandbox,
templates parse, a step has what it needs from the steps before it, and no credential is written into the document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import jsonschema

from ..errors import Invalid, Refusal
from ..market.market import require_provider
from .cron import check_cron, check_zone
from .document import normal_form, plain, policy_schema
from .market_fetch import AUTO
from .refs import is_ref, references, step_of
from .sandbox import Sandbox, Statement
from .stored_market import LOCAL
from .templates import check_template

__all__ = ["validate"]

_LARGEST = 100_000
_MOST_ERRORS = 50
_DEEPEST = 32
_LARGEST_NUMBER = 2**53
_AMOUNTS = {
    "maxLength": "must have at most {} characters",
    "minLength": "must have at least {} characters",
    "maxItems": "must have at most {} items",
    "minItems": "must have at least {} items",
}
_TEMPLATES = frozenset({"template_source", "body_template", "subject"})
_SECRET_NAMES = frozenset(
    {"password", "passwd", "passphrase", "secret", "api_key", "apikey", "api_secret", "token", "access_token"}
    | {"authorization", "credential", "credentials", "private_key"}
)
_SECRETS = re.compile(
    r"zrv_sk_\w+|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\beyJ[\w-]{8,}\.[\w-]+\.|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|://[^\s/:@]+:[^\s/@]+@|(?i:\bbearer\s+[\w.~+/=-]{16,})|(?i:\b(?:api[_-]?key|password|secret|token)\s*[:=]\s*\S{6,})"
)


def _invalid(errors: list[tuple[str, str]]) -> Invalid:
    """422 with `detail.validation_errors`, a list of `{field, message}`."""
    refusal = Invalid("The policy is not valid.", "policy_invalid")
    refusal.detail = {
        "validation_errors": [{"field": field, "message": message} for field, message in errors[:_MOST_ERRORS]]
    }
    return refusal


async def validate(document: Any, sandbox: Sandbox, default_zone: str) -> dict[str, Any]:
    """The document's normal form; 422 lists everything that is wrong."""
    if not isinstance(document, dict):
        raise _invalid([("policy_json", "must be an object")])
    if problem := _shape_error(document):
        raise _invalid([("policy_json", problem)])
    policy: dict[str, Any] = plain(document)
    errors = [*_text_errors(policy, ""), *_schema_errors(policy)]
    if not errors:
        policy = normal_form(policy, default_zone)
        errors = [*_trigger_errors(policy["trigger"]), *_step_errors(policy["steps"])]
        errors += await _statement_errors(policy["steps"], sandbox)
    if errors:
        raise _invalid(errors)
    return policy


def _shape_error(document: Any) -> str | None:
    """What no schema catches and no answer could carry: endless nesting, numbers that JSON readers disagree on."""
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        following: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                following += value.values()
            elif isinstance(value, list):
                following += value
            elif isinstance(value, (int, float, Decimal)) and not -_LARGEST_NUMBER <= value <= _LARGEST_NUMBER:
                return "holds a number that is too large"
        level = following
        if not level:
            return None
    return f"is nested more than {_DEEPEST} levels deep"


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(policy_schema())


def _schema_errors(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for error in sorted(_validator().iter_errors(document), key=lambda error: list(map(str, error.absolute_path))):
        yield from _describe_error(error)


def _describe_error(error: Any) -> Iterator[tuple[str, str]]:
    """One schema error in words; of "a value or a reference" the half that was meant is explained."""
    if error.validator == "anyOf" and error.context:
        half = 1 if is_ref(error.instance) else 0
        meant = [part for part in error.context if part.relative_schema_path[0] == half]
        for part in meant or error.context:
            yield from _describe_error(part)
        return
    path = ".".join(str(part) for part in error.absolute_path) or "policy_json"
    amount = _AMOUNTS.get(error.validator)
    message = amount.format(error.validator_value) if amount is not None else error.message
    yield path, message if len(message) <= 300 else f"…{message[-300:]}"  # it begins with the value, ends with the rule


def _text_errors(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Texts that no database or mail can carry, and credentials; also bounds the document's size."""
    size = 0
    for place, name, text in _texts(value, path):
        size += len(text)
        if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
            yield place, "must be valid text"
        elif _SECRETS.search(text) or (name.lower() in _SECRET_NAMES and text):
            yield place, "looks like a credential; a policy must not hold one"
    if size > _LARGEST:
        yield "policy_json", f"must have at most {_LARGEST} characters of text"


def _texts(value: Any, path: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield path or "policy_json", name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield path or "policy_json", "", key
            yield from _texts(item, f"{path}.{key}" if path else key, key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}.{index}", name)


def _trigger_errors(trigger: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if problem := check_cron(trigger["cron_expression"]):
        yield "trigger.cron_expression", problem
    if problem := check_zone(trigger["timezone"]):
        yield "trigger.timezone", problem


def _step_errors(steps: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    seen: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        here = f"steps.{index}"
        earlier = [one["id"] for one in seen]
        if step["id"] in earlier:
            yield f"{here}.id", f'"{step["id"]}" is already the id of an earlier step'
        refs = list(references(step["params"], f"{here}.params"))
        if "skip_if" in step:
            refs.append((f"{here}.skip_if.field", step["skip_if"]["field"]))
        for place, ref in refs:
            name = step_of(ref)
            if name is None:
                yield place, f"{ref!r} is not a reference like ctx.<step>.output.<field>"
            elif name not in earlier:
                yield place, f'refers to "{name}", which is not an earlier step'
        yield from _need_errors(step, seen, here)
        yield from _name_errors(step, here)
        for place, name, text in _texts(step["params"], f"{here}.params"):
            if name in _TEMPLATES and (problem := check_template(text)):
                yield place, problem
        seen.append(step)


def _need_errors(step: dict[str, Any], seen: list[dict[str, Any]], here: str) -> Iterator[tuple[str, str]]:
    """What a step takes from the steps before it without a reference."""
    params, before = step["params"], {one["type"] for one in seen}
    if step["type"] == "render" and "template_source" not in params and "store_report" not in before:
        yield here, "render needs an earlier store_report step, or a template_source"
    if step["type"] == "send":
        if "render" not in before and "body_template" not in params:
            yield here, "send needs an earlier render step, or a body_template"
        if params.get("channel") == "email" and not params.get("recipients"):
            yield f"{here}.params.recipients", "e-mail needs at least one recipient"
    if step["type"] == "transform" and "source_step_id" not in params and "fetch" not in before:
        yield here, "transform needs an earlier fetch step, or a source_step_id"
    if step["type"] == "transform" and params.get("source_step_id", "") not in ("", *(one["id"] for one in seen)):
        yield f"{here}.params.source_step_id", f'"{params["source_step_id"]}" is not an earlier step'


def _name_errors(step: dict[str, Any], here: str) -> Iterator[tuple[str, str]]:
    """Names within a step: of its queries, each once; of the query that a section shows; of a provider."""
    params = step["params"]
    where = {"query": "queries", "store_report": "data_queries"}.get(step["type"])
    names = [query["name"] for query in params[where]] if where is not None else []
    for index, name in enumerate(names):
        if name in names[:index]:
            yield f"{here}.params.{where}.{index}.name", f'two queries are named "{name}"'
    for index, section in enumerate(params["spec"]["sections"] if step["type"] == "store_report" else ()):
        if section["query"] not in names:
            yield f"{here}.params.spec.sections.{index}.query", f'there is no query "{section["query"]}"'
    provider = params.get("provider")
    if step["type"] == "fetch" and isinstance(provider, str) and provider not in (LOCAL, AUTO):
        try:
            require_provider(provider)
        except Refusal as refusal:
            yield f"{here}.params.provider", f"{refusal.detail} Or use {LOCAL} for what is stored, {AUTO} for any."


async def _statement_errors(steps: Iterable[dict[str, Any]], sandbox: Sandbox) -> list[tuple[str, str]]:
    found = [
        (place, Statement(holder["sql"], dict.fromkeys(holder.get("binds", {}))))
        for index, step in enumerate(steps)
        for place, holder in _statements(step["params"], f"steps.{index}.params")
    ]
    problems = await sandbox.check([statement for _, statement in found])
    return [(f"{place}.sql", problem) for (place, _), problem in zip(found, problems, strict=True) if problem]


def _statements(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if isinstance(value.get("sql"), str):
            yield path, value
        for name, item in value.items():
            yield from _statements(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _statements(item, f"{path}.{index}")
