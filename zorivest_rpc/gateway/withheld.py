"""The credentials that one server is sent, taken out of everything that it says.

A client and its model are parties that a credential was not issued for, so what a server repeats of ours ends here: in
results, prompts, resources, definitions, forms and errors alike. Only the value itself is recognised. A server without
credentials costs one comparison; else the bytes of an answer are searched, and an answer is read only where one of them
may be in it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from zorivest_rpc.gateway.config import Server
from zorivest_rpc.mcp.client.forms import Form, names_a_secret
from zorivest_rpc.mcp.client.lists import Drop, Item, Listing
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps

__all__ = ["HIDDEN", "NOTHING_WITHHELD", "SHORTEST", "Withheld", "collect_credentials"]

HIDDEN: Final = "[redacted]"
SHORTEST: Final = 4  # a shorter value would hide half of every text and protects nothing
_NO_RESULT: Final = Raw(b"null")  # for one that cannot be freed of what it repeats
_ESCAPED: Final = b"\\u00"  # how an encoder writes a plain character that it need not escape


def collect_credentials(server: Server, environ: Mapping[str, str]) -> list[str]:
    """What the server is sent as a credential: its headers, and of what a child is handed that whose name says so. One
    that each client has a token for may say to one what it was sent for another."""
    handed = (name for name in server.env_pass if names_a_secret(name))
    names = (*server.secret_variables, *server.tokens_of_others, *handed)
    return [value for name in names if (value := environ.get(name, "").strip())]


class Withheld:
    """The credentials of one server; nothing is recognised where there are none."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self._spellings = tuple({spelling for secret in known for spelling in _spell(secret)})

    def hide(self, words: str) -> str:
        return words if self._known is None else self._known.sub(HIDDEN, words)

    def hide_in(self, value: Json) -> Any:
        """The same structure without them, in keys too."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            return {self.hide(str(key)): self.hide_in(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.hide_in(inner) for inner in value]
        return value

    def hide_in_result(self, raw: Raw) -> Raw:
        """An encoded result; the very same where none of them is in it."""
        if not self._spellings:
            return raw
        data = bytes(raw)
        if not any(spelling in data for spelling in self._spellings) and _ESCAPED not in data:
            return raw
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            return raw  # the reader of the result says what is wrong with it, and shows nothing of it
        try:
            hidden = self.hide_in(value)
            return raw if hidden == value else Raw(dumps(hidden))
        except (RecursionError, TypeError):  # too deep to be walked, or to be written
            return _NO_RESULT

    def hide_in_form(self, form: Form) -> Form:
        return form if self._known is None else Form(self.hide(form.message), self.hide_in(form.schema))

    def hide_in_listing(self, listing: Listing) -> Listing:
        """What has one in its name or URI is dropped: it could not be called by the name that is shown."""
        if self._known is None:
            return listing
        items, drops = [], [Drop(self.hide(each.name), each.reason, self.hide(each.detail)) for each in listing.drops]
        for item in listing.items:
            name = self.hide(item.name)
            if name != item.name:
                drops.append(Drop(name, "credential", "its name holds a credential of ours"))
            else:
                items.append(self._hide_in_item(item))
        return replace(listing, items=tuple(items), drops=tuple(drops))

    def _hide_in_item(self, item: Item) -> Item:
        definition = self.hide_in(item.definition)
        return item if definition == item.definition else replace(item, raw=dumps(definition), definition=definition)


NOTHING_WITHHELD: Final = Withheld()


def _spell(secret: str) -> Iterable[bytes]:
    """As encoders write it into JSON: with and without escapes for what is not ASCII, and for a slash."""
    for is_ascii in (True, False):
        plain = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        for spelling in (plain, plain.replace("/", "\\/")):
            yield spelling.encode("utf-8", "surrogatepass")
