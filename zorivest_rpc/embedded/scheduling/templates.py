"""Templates: the report layouts that come with the program, and the texts that a policy brings.

All of them are rendered by a sandboxed Jinja2 in a process of its own (`template_child.py`), which is killed when it
takes too long. A policy's own HTML is placed into our page, whose content policy forbids scripts and anything from
outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateError

from .child import run_child

__all__ = ["BASE_REPORT", "MARKDOWN_REPORT", "PAGE", "SECONDS", "TemplateRefused", "check_template", "render"]

SECONDS = 10.0
_LARGEST_INPUT = 16_000_000
_CHILD = Path(__file__).with_name("template_child.py")

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{{ title }}</title>
<style>
body { font: 14px/1.5 sans-serif; color: #111827; max-width: 960px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin-top: 28px; }
table { border-collapse: collapse; width: 100%; } th, td { border-bottom: 1px solid #e5e7eb; padding: 4px 8px; }
th { text-align: left; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
.card { display: inline-block; border: 1px solid #e5e7eb; border-radius: 6px; padding: 8px 16px; margin: 4px; }
.card b { display: block; font-size: 20px; } .note { color: #6b7280; font-size: 12px; }
</style></head><body>
{{ body }}
</body></html>
"""

BASE_REPORT = """<h1>{{ title }}</h1>
<p class="note">{{ policy }} · {{ as_of }}</p>
{% for section in sections %}
{% if section.type == "metric_card" %}
<div class="card">{{ section.title }}<b>{{ section.value | cell }}</b></div>
{% else %}
<h2>{{ section.title }}</h2>
{% if section.type == "chart" %}
{{ charts[section.chart] }}
{% elif section.rows %}
<table><thead><tr>{% for column in section.columns %}<th>{{ column }}</th>{% endfor %}</tr></thead><tbody>
{% for row in section.rows %}
<tr>{% for value in row %}<td{% if value is number %} class="n"{% endif %}>{{ value | cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table>
{% if section.truncated %}<p class="note">Only the first {{ section.rows | length }} rows.</p>{% endif %}
{% else %}
<p class="note">No rows.</p>
{% endif %}
{% endif %}
{% endfor %}
"""

MARKDOWN_REPORT = """# {{ title }}

{{ policy }} · {{ as_of }}
{% for section in sections %}

{% if section.type == "metric_card" %}
**{{ section.title }}:** {{ section.value | cell }}
{% else %}
## {{ section.title }}

{% if section.columns %}
|{% for column in section.columns %} {{ column }} |{% endfor %}

|{% for column in section.columns %} --- |{% endfor %}

{% for row in section.rows %}
|{% for value in row %} {{ (value | cell | string).replace("|", "/").replace("\\n", " ") }} |{% endfor %}

{% endfor %}
{% endif %}
{% endif %}
{% endfor %}
"""


class TemplateRefused(Exception):
    """The template is wrong, not allowed, too slow or too large; the text says which."""


def check_template(text: str) -> str | None:
    """What is wrong with a template's syntax, or None."""
    try:
        Environment(autoescape=True).parse(text)
    except TemplateError as exc:
        return f"is not a template: {exc.message}"
    except RecursionError:
        return "is nested too deeply"
    return None


async def render(
    templates: Mapping[str, str],
    context: Mapping[str, Any],
    markup: Mapping[str, Mapping[str, str]] | None = None,
    *,
    chain: bool = False,
) -> dict[str, str]:
    """Every template by its name. `markup` holds HTML of ours that is not escaped; with `chain` each result is a
    variable of the templates after it."""
    request = {"templates": dict(templates), "context": dict(context), "markup": dict(markup or {}), "chain": chain}
    data = json.dumps(request, default=str).encode()
    if len(data) > _LARGEST_INPUT:
        raise TemplateRefused("The data is too large to be rendered.")
    try:
        output, code = await run_child(_CHILD, data, SECONDS)
    except TimeoutError:
        raise TemplateRefused(f"The template took longer than {SECONDS:g} seconds.") from None
    return _answer(output, code)


def _answer(output: bytes, code: int | None) -> dict[str, str]:
    try:
        answer: dict[str, Any] = json.loads(output)
    except ValueError:
        raise TemplateRefused(f"The template used too much time or memory (the renderer ended with {code}).") from None
    if problem := answer.get("error"):
        raise TemplateRefused(f"Template {problem.rstrip('.')}.")
    rendered: dict[str, str] = answer["rendered"]
    return rendered
