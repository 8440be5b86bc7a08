"""Text of pages inside TypeScript: as string literals and as comments, so that no page can write code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import orjson

from zorivest_rpc.devtools.frames import Selectors

__all__ = ["REDACTED", "encode_comment", "encode_string", "locator"]

REDACTED: Final = "[redacted]"
# legal in JSON, and in a script line ends, or invisible, or what makes a line read as another than it is
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\\s]+")
_ROLE: Final = re.compile("[a-z]{1,30}")


def encode_string(text: str) -> str:
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", orjson.dumps(text).decode())


def encode_comment(text: str, most: int = 160) -> str:
    """One line without control characters: what follows it is code again."""
    line = _CONTROL.sub(" ", text).strip()
    return f"// {line if len(line) <= most else line[:most] + '…'}"


def locator(selectors: Selectors) -> str | None:
    """The best way to find the element again; None where the page gave none that says anything."""
    ways = (text for text in _ways(selectors) if text and REDACTED not in text)
    return next(ways, None)


def _ways(selectors: Selectors) -> Iterator[str | None]:
    """In the order in which Playwright's authors recommend them."""
    exact = "{ exact: true }"
    role = selectors.role
    yield selectors.test_id and f"page.getByTestId({encode_string(selectors.test_id)})"
    if role and role.name and _ROLE.fullmatch(role.role):
        yield f"page.getByRole({encode_string(role.role)}, {{ name: {encode_string(role.name)}, exact: true }})"
    yield selectors.label and f"page.getByLabel({encode_string(selectors.label)}, {exact})"
    yield selectors.text and f"page.getByText({encode_string(selectors.text)}, {exact})"
    yield selectors.id and f"page.locator({encode_string(f'css=[id={_css_string(selectors.id)}]')})"
    yield selectors.css and f"page.locator({encode_string(f'css={selectors.css}')})"


def _css_string(text: str) -> str:
    """CSS Syntax 4.3.5: what would end the string or the line is written as its number."""
    return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda found: f"\\{ord(found[0]):x} ", text) + '"'
