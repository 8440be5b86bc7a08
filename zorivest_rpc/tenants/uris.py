"""The URI of a resource with the client that it is of: the last part of its query, whatever the rest of it is."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote_plus

__all__ = ["bare_template", "name_client_in", "split_client", "template_for"]

_NAME: Final = "clientId="
_VARIABLES: Final = ("{?clientId}", "{&clientId}")


def name_client_in(uri: str, id: str) -> str:
    return f"{uri}{_mark_after(uri)}{_NAME}{quote(id, safe='')}"


def template_for(text: str) -> str:
    """A template, or the URI of one resource, with the client as its last variable."""
    return f"{text}{{{_mark_after(text)}clientId}}"


def split_client(uri: str) -> tuple[str, str | None]:
    """A URI without its client, and the client. What stands elsewhere in a query is part of the resource's own URI."""
    bare, found, given = uri.rpartition(_NAME)
    mark = bare[-1:]
    bare = bare[:-1]
    if not found or not bare or mark != _mark_after(bare) or any(each in given for each in "?&#"):
        return uri, None
    return bare, unquote_plus(given)


def bare_template(text: str) -> str:
    for variable in _VARIABLES:
        text = text.removesuffix(variable)
    return text


def _mark_after(uri: str) -> str:
    return "&" if "?" in uri else "?"
