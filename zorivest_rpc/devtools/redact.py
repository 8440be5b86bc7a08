"""Secrets taken out of what a page sends, before any of it is stored; the page has done the same before.

Names decide first: a header, a JSON or form key, a query parameter or an attribute whose name contains one of the
words of `NAMES` loses its value, whatever the value is. Then values do, wherever they stand: bearer tokens, JSON Web
Tokens, and the keys and tokens of this program. It works on text, not on parsed JSON: a body that was cut in the
middle, JSON within a string and a line of a log are then one case.

A name has several spellings: JSON may write each character as a number (`p\u0061ssword`), and a form or a query each
byte (`p%61ssword`), a whole document within one parameter too. Where another spelling holds a secret, it is redacted
there; a text without one stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = [
    "REDACTED",
    "is_secret_input",
    "is_secret_name",
    "redact_attributes",
    "redact_headers",
    "redact_html",
    "redact_text",
    "redact_url",
]

REDACTED: Final = "[redacted]"
NAMES: Final = ("pass", "secret", "token", "auth", "key", "ssn", "card", "cvv", "cvc", "iban")
_HEADERS: Final = ("authorization", "cookie", "token", "secret", "key", "password")


def _string(quote: str, level: str) -> str:
    """A string with its quotes, which have as many backslashes as the group `level`, or as much as there is of it.

    With n of them before the quotes, a quote within has more; and each backslash at its end is 2n + 2 of them.
    """
    same = f"(?P={level})"
    close = rf"(?:\\\\{same}{same})*+{same}{quote}"
    inner = rf"[^{quote}\\]++|(?!{close})(?:\\++(?!{quote})|{same}\\++{quote})"
    return rf"(?P<{level}>\\*+){quote}(?:{inner})*+(?:{close})?+"


_DOUBLE: Final = _string('"', "double")
_SINGLE: Final = _string("'", "single")
_BACK: Final = _string("`", "back")


# No pattern below may look twice at a long run: a page chooses the text. So runs are possessive, or have a length.
_BOUND: Final = r"(?<![\w.\[\]%$-])"
_NAME: Final = r"[\w.\[\]%$-]++"
# "apiKey": …, and the same within a string, where each quote has backslashes before it; a quote within a key has more
_JSON_KEY: Final = re.compile(
    r"(?<!\\)(\\*+)\"((?:[^\"\\]{1,200}+|(?!(?:\\\\\1\1)*+\1\")(?:\\++(?!\")|\1\\++\")){0,50}+)"
    r"(?:(?:\\\\\1\1)*+\1|(?!\1)\\*+)\""  # its end, or that of the text around
    r"\s{0,20}+:\s{0,20}+"
)
_OPENING: Final = re.compile(r"(\\*+)\"")
_NESTED: Final = re.compile(r"\\*+\"|[{}\[\]]")
# password=…, ?access_token=…, data-key="…", secret = …
_PAIR: Final = re.compile(
    rf"{_BOUND}({_NAME}[ \t]{{0,20}}+=[ \t]{{0,20}}+)(?:{_DOUBLE}|{_SINGLE}"
    r"|(?:(?i:basic|digest|token)[ \t]{1,20}+)?+"
    rf"(?:[^&\s\"<>;,?#]++|[;,?#](?!\s?{_NAME}=))++)",  # a;b=… is two pairs, a;b is one value
)
_PLACE: Final = re.compile(
    r"\[redacted\]:\d{1,9}:\d{1,9}\)?"
)  # of an error; the page has redacted the address before it
# password: "hunter2" and token: abc, as consoles print objects; never the place in auth.js:10:5
_COLON: Final = re.compile(
    rf"{_BOUND}({_NAME}:\s{{0,20}}+)"
    rf"((?:{_DOUBLE}|{_SINGLE}|{_BACK})"
    r"|(?<=\s)(?:(?:basic|digest|token)\s{1,20}+)?+[^\s,;\"'`{}\[\]]++)",
    re.I,
)
_PART: Final = re.compile(
    r"(name=\"([^\"]{0,200}+)\"[^\r\n]{0,300}+(?:\r?\n[^\r\n]{1,300}+){0,4}\r?\n\r?\n).*?(?=\r?\n--|\Z)", re.I | re.S
)
_VALUES: Final = re.compile(
    r"\bbearer\s{1,20}+[a-z0-9._~+/=-]{8,}+"
    r"|(?<![\w-])eyj[a-z0-9_-]{5,}+\.[a-z0-9_-]{5,}+(?:\.[a-z0-9_-]*+)?"
    r"|(?:zrv_sk_|ctk_|zdk_)[a-z0-9_-]++",
    re.I,
)
# up to the last @ before the host ends, as browsers read it; some write the slashes of JSON with backslashes
_USER: Final = re.compile(r"(:(?:\\{0,9}+/){2})[^/@:\s\"'<>\\]{0,256}+:[^/?#\s\"'<>\\]{0,512}@")
_INPUT: Final = re.compile(r"<(?:input|textarea)\b[^>]*+>?", re.I)
_ATTRIBUTE: Final = re.compile(r"\b(type|autocomplete|name|id)\s{0,5}+=\s{0,5}+[\"']?([^\"'\s>]{0,200}+)", re.I)
_VALUE: Final = re.compile(r"(\bvalue\s{0,5}+=\s{0,5}+)(?:\"[^\"]*+(?:\"|$)|'[^']*+(?:'|$)|[^\s>]++)", re.I)
_PLAIN: Final = re.compile(r"[^\s,;&}\])\"'<]*+")
# printed, but no space and none of "#&<=>, and a % among it; a backslash before a quote belongs to the text around
_RUN: Final = r"[!$'-;?-\[\]-~]++|\\{1,99}+(?![\"\\])"
_ENCODED: Final = re.compile(rf"(?<![!$-%'-;?-~])(?:{_RUN})*+%(?:%|{_RUN})*+")
_BYTE: Final = re.compile(r"%[0-9a-f]{2}", re.I)
_LETTER: Final = re.compile(r"%(?:[46][1-9a-f]|[57][0-9a])", re.I)
_NUMBER: Final = re.compile(r"(?<!\\)(\\++)u00(?!5c)([2-7][0-9a-f])", re.I)
_DEPTH: Final = 4  # documents within parameters within documents
_HINTS: Final = ("earer", "eyj", "zrv_sk_", "ctk_", "zdk_")


def is_secret_name(name: str) -> bool:
    low = name.lower()
    return any(word in low for word in NAMES)


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The same names in lower case; values of secret ones replaced, those of the others searched."""
    return {
        name.lower(): REDACTED if _is_secret_header(name.lower()) else redact_text(value)
        for name, value in headers.items()
    }


def _is_secret_header(low: str) -> bool:
    return any(word in low for word in _HEADERS)


def redact_url(url: str) -> str:
    """Without user and password, and without the values of secret parameters, in the fragment too."""
    return redact_text(url)


def redact_text(text: str, depth: int = _DEPTH) -> str:
    """A body, a message, a URL: anything that a page says; up to `depth` encodings, one within another, are undone."""
    plain = _NUMBER.sub(_character, text) if "\\u00" in text else text
    if "%" not in plain:
        redacted = _redact_plain(plain)
    else:
        plain = _LETTER.sub(lambda byte: unquote(byte[0]), plain)
        inner = _ENCODED.sub(lambda run: _redact_encoded(run[0], depth - 1), plain) if depth else plain
        redacted = _redact_plain(inner)
    return text if redacted == plain else redacted


def _redact_encoded(run: str, depth: int) -> str:
    """What may be a document, encoded as a part of an address or a form; by bytes, so that the rest stays as it was."""
    if not _BYTE.search(run):
        return run
    plain = unquote(run, encoding="latin-1")
    redacted = redact_text(plain, depth)
    return run if redacted == plain else quote(redacted, safe=run.replace("%", "") + "[]", encoding="latin-1")


def _character(escape: re.Match[str]) -> str:
    """The character alone; a quote with the backslashes that a plain one has at its depth: 1, 3, 7 for 1, 2, 4."""
    slashes = len(escape[1])
    return "\\" * (slashes + (slashes & -slashes) - 1) + '"' if escape[2] == "22" else chr(int(escape[2], 16))


def _redact_plain(text: str) -> str:
    if "@" in text:
        text = _USER.sub(rf"\1{REDACTED}@", text)
    low = text.lower()
    for hint in _HINTS:
        if hint in low:
            text = _VALUES.sub(REDACTED, text)
            break
    for word in NAMES:
        if word in low:
            return _redact_named(text, low)
    return text


def _redact_named(text: str, low: str) -> str:
    if ":" in text:
        if '"' in text:
            text = _redact_json_text(text)
        text = _COLON.sub(_colon, text)
    if "=" in text:
        if 'name="' in low:
            text = _PART.sub(_part, text)
        text = _PAIR.sub(_pair, text)
    return text


def _pair(match: re.Match[str]) -> str:
    if not is_secret_name(match[1]) or _PLACE.fullmatch(match[0][len(match[1]) :]):
        return match[0]
    level, single = match["double"], match["single"]
    quote = f'{level}"' if level is not None else f"{single}'" if single is not None else ""
    return f"{match[1]}{quote}{REDACTED}{quote}"


def _colon(match: re.Match[str]) -> str:
    if not is_secret_name(match[1]) or match[2].startswith(REDACTED[:-1]):
        return match[0]
    return f"{match[1]}{REDACTED}"


def _part(match: re.Match[str]) -> str:
    return f"{match[1]}{REDACTED}" if is_secret_name(match[2]) else match[0]


def _redact_json_text(text: str) -> str:
    """Each value of a secret key, whatever it is: a text, a number, a list or an object with all there is in it."""
    parts: list[str] = []
    place = done = 0
    while (key := _JSON_KEY.search(text, place)) is not None:
        place = key.end()
        if is_secret_name(key[2]):
            opening = _OPENING.match(text, place)  # the value has the say: a key may begin within another text
            level = len((opening or key)[1])
            quote = "\\" * level + '"'
            parts += (text[done:place], quote, REDACTED, quote)
            done = place = _end_of_value(text, place, level)
    if not parts:
        return text
    parts.append(text[done:])
    return "".join(parts)


def _end_of_value(text: str, start: int, level: int) -> int:
    """Where the value ends that starts here; the end of the text if it was cut. `level` backslashes escape a quote."""
    quote = "\\" * level + '"'
    if text.startswith(quote, start):
        return _end_of_string(text, start + level + 1, level)
    if text[start : start + 1] not in ("{", "["):
        match = _PLAIN.match(text, start)
        assert match is not None  # it matches nothing, too
        return match.end()
    first = _OPENING.search(text, start)
    level = len(first[1]) if first else level
    depth, place = 0, start
    while (token := _NESTED.search(text, place)) is not None:
        place = token.end()
        if token[0][-1] == '"':
            place = _end_of_string(text, place, level)
        elif token[0] in "{[":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return place
    return len(text)


def _end_of_string(text: str, start: int, level: int) -> int:
    """Behind the quote that ends a string; that quote has `level` backslashes, or belongs to the text around it."""
    place = start
    while (place := text.find('"', place)) >= 0:
        first = place
        while first > start and text[first - 1] == "\\":
            first -= 1
        escapes = place - first
        if escapes < level:  # the string around this one ends here
            return first
        if (escapes - level) % (2 * (level + 1)) == 0:
            return place + 1
        place += 1
    return len(text)


def redact_html(html: str) -> str:
    """A snippet of a document: like text, and the values of secret inputs."""
    return redact_text(_INPUT.sub(_input, html) if "<" in html else html)


def _input(tag: re.Match[str]) -> str:
    secret = any(is_secret_input(name.lower(), value) for name, value in _ATTRIBUTE.findall(tag[0]))
    return _VALUE.sub(rf'\g<1>"{REDACTED}"', tag[0]) if secret else tag[0]


def is_secret_input(attribute: str, value: str) -> bool:
    """Whether this attribute says that what is typed into the input is a secret."""
    if attribute == "type":
        return value.lower() == "password"
    if attribute == "autocomplete":
        return value.lower().startswith("cc-") or is_secret_name(value)
    return is_secret_name(value)


def redact_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Those of an element: what a secret input holds, and what stands under a secret name."""
    secret = any(is_secret_input(name, said) for name, said in _about_input(attributes))
    return {
        name: REDACTED if is_secret_name(name) or (secret and name == "value") else redact_text(value)
        for name, value in attributes.items()
    }


def _about_input(members: Mapping[str, Json]) -> list[tuple[str, Json]]:
    return [(name, members[name]) for name in ("type", "autocomplete", "name", "id") if name in members]
