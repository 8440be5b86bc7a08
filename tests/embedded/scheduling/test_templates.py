"""Templates: what they can do, and that nothing they try gets out of their process or keeps it."""

from __future__ import annotations

import pytest

from zorivest_rpc.embedded.scheduling import templates
from zorivest_rpc.embedded.scheduling.templates import (
    BASE_REPORT,
    PAGE,
    TemplateRefused,
    check_template,
    render,
)

DATA = {"a": {"items": 3, "get": 4}, "b": {"x": 1}}
REPORT = {
    "title": "P & L <script>alert(1)</script>",
    "policy": "Daily",
    "as_of": "2026-01-05",
    "sections": [
        {"type": "metric_card", "title": "Net", "value": 1234567.5},
        {
            "type": "data_table",
            "title": "T",
            "columns": ["a"],
            "rows": [["<b>"], [None], [0.1 + 0.2]],
            "truncated": True,
        },
        {"type": "data_table", "title": "Empty", "columns": ["a"], "rows": [], "truncated": False},
    ],
}


async def test_values_are_escaped_and_numbers_are_readable() -> None:
    done = await render({"body": BASE_REPORT, "page": PAGE}, REPORT, {"charts": {}}, chain=True)
    page = done["page"]
    assert "<script>" not in page
    assert "P &amp; L &lt;script&gt;" in page
    assert "<td>&lt;b&gt;</td>" in page
    assert "1,234,567.5" in page
    assert ">0.3<" in page
    assert "No rows." in page
    assert "Only the first 3 rows." in page
    assert "default-src 'none'" in page


async def test_our_own_markup_is_kept_and_a_policys_text_never_becomes_markup() -> None:
    source = "{{ charts.one }}{{ text }}"
    done = await render({"t": source}, {"text": "<svg>"}, {"charts": {"one": "<svg></svg>"}})
    assert done["t"] == "<svg></svg>&lt;svg&gt;"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''|attr('__class__') }}",
        "{{ ''['__class__'].__mro__ }}",
        "{{ (1).__class__.__base__.__subclasses__() }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{a.__init__.__globals__}'.format_map({'a': 1}) }}",
        "{{ range.__globals__ }}",
        "{{ dict.__subclasses__() }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context }}",
        "{% macro m() %}{% endmacro %}{{ m.__call__ }}",
        "{{ ['a']|map(attribute='__class__.__mro__')|list }}",
        "{{ [1]|sort(attribute='__class__.__init__.__globals__') }}",
        "{{ '%s' % ''.__class__ }}",
        "{{ '{0.__class__.__mro__}'|format(1) ~ ('{0.__class__}' | string).format(1) }}",
        "{{ ('{0[__class__]}').format(x) }}",
        "{% set f = '{0.__class__}'.format %}{{ f(1) }}",
        "{{ namespace().__init__ }}",
        "{{ loop.__class__ }}{% for a in [1] %}{{ loop._iterable }}{% endfor %}",
        "{% for a in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
        "{{ ''.join.__self__.__class__ }}",
        "{{ (x for x in [1]).gi_frame }}",
        "{{ range(1).__reduce__() }}",
        "{{ caller.__globals__ }}",
        "{{ [].__add__([1]) }}",
        "{{ {}.setdefault('a', 1) }}",
        "{{ [].append(1) }}",
        "{{ {}.update({}) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{{ missing }}",
        "{{ 1 / 0 }}",
        "{% for i in range(10000000) %}{% endfor %}",
        "{{ range(2) | map('string') | join('x' * 900000000) }}",
        "{{ ([1] * 200000000) | length }}",
        "{{ (['a'] | groupby('__class__') | first)[0].mro() }}",
        "{{ (['a'] | map('attr', '__class__') | first).mro() }}",
        "{{ 'a' | indent(1000000000) }}",
        "{{ 'abc' | replace('', 'x' * 3000000) }}",
        "{{ '%.2000000000f' % 1.0 }}",
        "{{ '%2000000000s' | format('x') }}",
        "{{ [1] | batch(200000000, 0) | list | length }}",
        "{{ 'x' * 2000000000 }}",
        "{{ 'x'.center(2000000000) }}",
        "{{ '%2000000000d' % 1 }}",
        "{% set a = 'xxxxxxxxxxxxxxxx' %}" + "{% set a = a ~ a %}" * 30 + "{{ a }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
    ],
)
async def test_a_template_that_tries_to_get_out_is_refused(source: str) -> None:
    with pytest.raises(TemplateRefused):
        await render({"t": source}, {})


@pytest.mark.parametrize(
    "endless",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9 ** (9 ** 9) }}",
        "{{ [1, 2] | slice(1000000000) | list }}",
    ],
)
async def test_a_template_that_never_ends_is_killed(monkeypatch: pytest.MonkeyPatch, endless: str) -> None:
    monkeypatch.setattr(templates, "SECONDS", 0.7)
    with pytest.raises(TemplateRefused, match=r"longer than|too much memory"):
        await render({"t": endless}, {})


async def test_what_filters_find_behind_a_value_is_undefined() -> None:
    source = "{{ ['a'] | map('attr', '__class__') | list }}{{ ['a'] | groupby('__class__') | length }}"
    assert await render({"t": source}, {}) == {"t": "[Undefined]1"}


async def test_the_renderer_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a template could reach, the process that runs it was given nothing to find."""
    import asyncio
    from typing import Any

    monkeypatch.setenv("ZORIVEST_API_KEY", "zrv_sk_secret")
    seen: list[dict[str, str]] = []
    start = asyncio.create_subprocess_exec

    async def watched(*command: str, **options: Any) -> Any:
        seen.append(options["env"])
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    assert await render({"t": "{{ a }}"}, {"a": 1}) == {"t": "1"}
    assert "zrv_sk_secret" not in str(seen)


async def test_data_comes_before_the_methods_of_its_container() -> None:
    done = await render({"t": "{{ a.items }} {{ a.get }} {% for k, v in b.items() %}{{ k }}{% endfor %}"}, DATA)
    assert done["t"] == "3 4 x"


def test_wrong_syntax_is_found_without_running() -> None:
    assert check_template("{{ fine }}") is None
    assert check_template("{% if %}") is not None
    assert check_template("{{ '(' ") is not None
    assert check_template("{{ " + "(" * 20_000) is not None
