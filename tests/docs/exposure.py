"""The reference of the rule language, from its table of keys, the declared names and the rules of the tool files."""

from __future__ import annotations

from zorivest_rpc.exposure.rules import DEEPEST, KEYS, MOST_ATOMS, describe
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Json, ToolSpec
from zorivest_rpc.serving.catalog.toolsets import OPT_IN

__all__ = ["render"]

_CONDITIONS = (
    ("`true`, `false`", "always, never"),
    ('`"counter"`', "the counter is above 0"),
    ('`{"ge": ["counter", n]}`', "the counter is at least n"),
    ('`{"lt": ["counter", n]}`', "the counter is below n"),
    ('`{"flag": "name"}`', "the flag was raised"),
    ('`{"any": [...]}`', "one of the conditions holds"),
    ('`{"all": [...]}`', "all of them hold"),
    ('`{"not": ...}`', "the condition does not hold"),
)
_LOGIC = """\
A counter that is not known makes its tests unknown. `any` with a true part is true and `all` with a false part is
false, whatever else is unknown in them; otherwise what has an unknown part is unknown, and so is its negation. What is
unknown in the end shows, unless the rule says `hide`.

A tool is listed if its `gate` was raised (or gates do not apply), its `show` holds, and one of its modes is left.
`available_modes` are the values that the list offers; `data_counts` has a number for each of them that has a `count`,
and leaves out what is not known. A tool without a `count` has neither. Values of a set become an enum only while they
are known, not more than `max`, and each of them has 1 to 64 characters of `A-Z a-z 0-9 _ . : -`.
"""
_INTRO = """\
# Exposure

The key `exposure` of a tool file: when a tool and its modes are listed. [The guide](../guide/exposure.md) says what
becomes of it for a client. A wrong rule stops the start with its file and place:

```text
schemas/tools/devtools/observe.json: exposure.modes.values: values differ from the enum: missing page, extra none
```

## Keys

| key | meaning |
|---|---|"""
_FORMS = """
`modes` is `{"property": INPUT, "values": {VALUE: {"show": CONDITION, "count": COUNTER}}}` with all values of that
input's enum, in their order; `enum_from` is `{INPUT: {"set": SET, "max": N}}`.

## Conditions

| condition | holds if |
|---|---|"""
_NAMES = """\
## Names

`schemas/exposure/state.json` declares them; a rule that names another is refused. Those of `backend.` mirror the
journal and are unknown until it was asked; the others are counted in the server, from 0.
"""


def render() -> str:
    definitions = load(opt_in=OPT_IN)
    lines = [
        _INTRO,
        *(f"| `{key}` | {meaning} |" for key, meaning in KEYS.items()),
        _FORMS,
        *(f"| {form} | {meaning} |" for form, meaning in _CONDITIONS),
        "",
        f"At most {DEEPEST} levels of `any`, `all` and `not`, and {MOST_ATOMS} different tests in a tool.\n",
        _LOGIC,
        _NAMES,
    ]
    for kind, names in definitions.state_names.items():
        lines += [f"| {kind.removesuffix('s')} | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {meaning} |" for name, meaning in names.items()]
        lines.append("")
    lines += [
        "## The rules of the tools\n",
        "| tool | listed when | modes | counts | values |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(spec) for spec in definitions.tools if spec.exposure is not None]
    return "\n".join(lines) + "\n"


def _row(spec: ToolSpec) -> str:
    given: dict[str, Json] = spec.exposure or {}
    when = [f"`{given['gate']}`"] if "gate" in given else []
    if not when or given.get("show", True) is not True:
        when.append(_code(given.get("show", True)))
    values = given.get("modes", {}).get("values", {})
    modes = ", ".join(
        mode if about.get("show", True) is True else f"{mode} ({_code(about['show'])})"
        for mode, about in values.items()
    )
    counts = [f"{mode}: `{about['count']}`" for mode, about in values.items() if "count" in about]
    counts += [f"{label}: `{counter}`" for label, counter in given.get("counts", {}).items()]
    enums = [f"{name}: `{source['set']}`" for name, source in given.get("enum_from", {}).items()]
    return f"| `{spec.name}` | {' and '.join(when)} | {modes} | {', '.join(counts)} | {', '.join(enums)} |"


def _code(condition: Json) -> str:
    words = describe(condition)
    return words if isinstance(condition, bool) else f"`{words}`"
