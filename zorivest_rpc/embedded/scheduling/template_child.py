"""The process in which templates are rendered: started empty, given text and data on stdin, killed when it takes too
long.

Run as a script by `templates.py`; it imports nothing of this project. A template that spends all memory or never
ends takes this process with it and nothing else. Input and output are one JSON object each."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup

MEMORY = 512 * 1024 * 1024
CPU_SECONDS = 3
LARGEST = 2_000_000

_GLOBALS = ("lipsum", "namespace", "cycler", "joiner")


def restrict() -> None:
    """No more memory, processor time or files than a report needs; where the system cannot limit, the parent kills."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(what, (limit, limit))
        except (ValueError, OSError):
            continue


def number(value: Any, places: int = 2) -> Any:
    """1234.5 as 1,234.50; what is no number stays as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "" if value is None else value
    return f"{value:,.{max(0, min(int(places), 8))}f}"


def cell(value: Any) -> Any:
    """A value of a table: whole numbers plain, others with up to six places and no trailing zeros."""
    if value is None:
        return ""
    if isinstance(value, float):
        text = f"{value:,.6f}".rstrip("0").rstrip(".")
        return text if text not in ("-0", "") else "0"
    return value


class DataFirst(ImmutableSandboxedEnvironment):
    """`a.items` is the item of that name, if there is one, and only then the method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def environment() -> ImmutableSandboxedEnvironment:
    env = DataFirst(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    for name in _GLOBALS:
        env.globals.pop(name, None)
    filters: dict[str, Callable[..., Any]] = {"number": number, "cell": cell}
    env.filters.update(filters)
    return env


def render(request: dict[str, Any]) -> dict[str, Any]:
    env = environment()
    context = dict(request["context"])
    for name, value in request["markup"].items():
        context[name] = {key: Markup(text) for key, text in value.items()}
    answer: dict[str, str] = {}
    for name, text in request["templates"].items():
        size, chunks = 0, []
        try:
            for chunk in env.from_string(text).generate(context):
                size += len(chunk)
                if size > LARGEST:
                    return {"error": f"{name}: the result is larger than {LARGEST} characters"}
                chunks.append(chunk)
        except TemplateError as exc:
            place = getattr(exc, "lineno", None)
            line = f" (line {place})" if place else ""
            return {"error": f"{name}: {exc.message or type(exc).__name__}{line}"}
        except (MemoryError, RecursionError):
            return {"error": f"{name}: needs too much memory"}
        except Exception as exc:  # noqa: BLE001 - whatever the template's own operations raise is the template's mistake
            return {"error": f"{name}: {type(exc).__name__}: {exc}"}
        answer[name] = "".join(chunks)
        context[name] = Markup(answer[name]) if request["chain"] else context.get(name)
    return {"rendered": answer}


def main() -> int:
    environment().from_string("{{ a | number }}{% for b in c %}{{ loop.index }}{% endfor %}").render(a=1, c=[1])
    request = json.load(sys.stdin)
    restrict()
    try:
        text = json.dumps(render(request))
    except MemoryError:
        text = '{"error": "the template needs too much memory"}'
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
