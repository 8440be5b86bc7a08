"""The editor for TOML: documents put together from awkward pieces, one table in and out."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.clients import toml
from zorivest_rpc.clients.refusal import ClientFileRefused

PATH = ("mcp_servers", "zorivest")
ENTRY: dict[str, Any] = {"command": 'C:\\new "x"\\ü', "args": ["--a", "tab\t", "del\x7f"], "env_vars": ["K"]}
ROOT_LINES = st.lists(
    st.sampled_from(
        [
            'model = "gpt"',
            "# [mcp_servers.zorivest]",
            'text = """\n[mcp_servers.zorivest]\ncommand = "\\""" ""\n"""',
            "raw = '''\n[x]\n'''''",
            "odd = '''\nit is''''",
            "list = [\n  1, # one ]\n  [2, 3],\n]",
            "inline = { a = { b = 'c#' }, d = \"]\" }",
            '"quoted key" = 1',
            "dotted.a.b = 1 # tail",
            "when = 2026-01-01T00:00:00Z",
            "",
        ]
    ),
    max_size=6,
    unique=True,
)
TABLES = st.lists(
    st.sampled_from(
        [
            '[mcp_servers.docs]\nurl = "https://x/mcp" # remote',
            '[mcp_servers."zorivest.old"]\ncommand = "a"\n\n[mcp_servers."zorivest.old".env]\nK = "v"',
            "[ mcp_servers . 'other' ]\nargs = [\n 'a',\n]",
            "[[profiles]]\nname = 1\n\n[[profiles]]\nname = 2",
            "# a comment before\n[tui]\ntheme = 'x'",
            "[mcp_servers]\n",
            "[zorivest]\nx = 1",
        ]
    ),
    max_size=5,
    unique=True,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    newline: str = draw(st.sampled_from(["\n", "\r\n"]))
    gap: str = draw(st.sampled_from(["\n", "\n\n", "\n# between\n\n"]))
    end: str = draw(st.sampled_from(["", "\n", "\n\n", "\n# the end"]))
    text = gap.join([*draw(ROOT_LINES), *draw(TABLES)]) + end
    return text.replace("\n", newline)


def without(document: dict[str, Any]) -> dict[str, Any]:
    rest = copy.deepcopy(document)
    rest.get("mcp_servers", {}).pop("zorivest", None)
    return rest if rest.get("mcp_servers") else {key: rest[key] for key in rest if key != "mcp_servers"}


@given(documents())
@settings(max_examples=300, deadline=None)
def test_a_table_goes_in_and_comes_out_of_any_document(text: str) -> None:
    before = tomllib.loads(text)
    after = toml.place(text, PATH, ENTRY)
    assert after.startswith(text)
    assert tomllib.loads(after)["mcp_servers"]["zorivest"] == ENTRY
    assert without(tomllib.loads(after)) == without(before)
    assert toml.remove(after, PATH).rstrip() == text.rstrip()


@given(documents())
@settings(max_examples=200, deadline=None)
def test_a_table_in_the_middle_is_changed_and_removed_alone(text: str) -> None:
    table = '[mcp_servers.zorivest]\ncommand = "old" # old\nargs = [\n  "x",\n]\nextra = 1 # kept\n'
    table += '\n[mcp_servers.zorivest.env]\nA = "1"\n'
    later = '\n# about later\n[later]\nx = """\n"""\n'
    whole = text + ("" if text.endswith("\n") or not text else "\n") + table + later
    changed = toml.place(whole, PATH, ENTRY, owned=("command", "args", "env_vars"))
    assert tomllib.loads(changed)["mcp_servers"]["zorivest"] == {**ENTRY, "extra": 1, "env": {"A": "1"}}
    assert "extra = 1 # kept" in changed
    assert changed.endswith(later)
    removed = toml.remove(changed, PATH)
    assert without(tomllib.loads(removed)) == without(tomllib.loads(whole))
    assert removed.endswith(later.lstrip("\n"))
    assert removed.startswith(text.rstrip())


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\nzorivest = { command = "x" }\nother = { command = "y" }\n',
        'mcp_servers.zorivest.command = "x"\nmcp_servers.other.command = "y"\n',
        '[mcp_servers]\nother.command = "y"\nzorivest.command = "x"\nzorivest.args = []\n',
    ],
)
def test_an_entry_written_another_way_is_removed_too_but_not_changed(text: str) -> None:
    with pytest.raises(ClientFileRefused) as refused:
        toml.place(text, PATH, ENTRY)
    assert "not a table of its own" in refused.value.problem
    assert tomllib.loads(toml.remove(text, PATH)) == {"mcp_servers": {"other": {"command": "y"}}}


@pytest.mark.parametrize(
    ("text", "where"), [("a = \n", "line 1, column 5"), ("[a\n", "line 1, column 3"), ("a = [", "end of document")]
)
def test_a_malformed_document_is_refused_with_the_place(text: str, where: str) -> None:
    with pytest.raises(ClientFileRefused) as refused:
        toml.place(text, PATH, ENTRY)
    assert refused.value.where == where
