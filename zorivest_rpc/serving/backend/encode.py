"""Values as a query string and as a multipart body."""

from __future__ import annotations

from collections.abc import Mapping
from os import urandom
from urllib.parse import quote, urlencode

from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.serving.backend.interface import MultipartBody

__all__ = ["as_text", "encode_form", "encode_query"]


def encode_query(query: Mapping[str, Json]) -> str:
    """Absent values are left out, truth values are written as JSON writes them, a list repeats its name."""
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, list):
            pairs += [(name, as_text(entry)) for entry in value]
        elif value is not None:
            pairs.append((name, as_text(value)))
    return urlencode(pairs, quote_via=quote, safe="")


def as_text(value: Json) -> str:
    if value is True or value is False:
        return "true" if value else "false"
    return value if isinstance(value, str) else dumps(value).decode()


def encode_form(form: MultipartBody) -> tuple[bytes, str]:
    """The bytes of a multipart body and its media type."""
    boundary = "zorivest-" + urandom(16).hex()
    parts: list[bytes] = []
    for name, value in form.fields.items():
        parts.append(_part_head(boundary, name) + b"\r\n" + value.encode() + b"\r\n")
    upload = form.upload
    head = _part_head(boundary, upload.field, upload.filename)
    parts += [head, f"Content-Type: {_one_line(upload.content_type)}\r\n\r\n".encode(), upload.data, b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _part_head(boundary: str, name: str, filename: str | None = None) -> bytes:
    line = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quote(name)}"'
    if filename is not None:
        line += f'; filename="{_quote(filename)}"'
    return (line + "\r\n").encode()


def _quote(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _one_line(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
