"""XML fed in pieces to a parser that forbids DTDs, entities and external references."""

from __future__ import annotations

from typing import Any

from zorivest_rpc.embedded.imports.drafts import ImportRefused
from zorivest_rpc.embedded.imports.source import Budget

__all__ = ["feed_safely"]

CHUNK = 64 * 1024


def feed_safely(data: bytes, target: Any, budget: Budget) -> None:
    """Drive `target` (start, end and data methods) over an XML document; what is unsafe or broken is refused."""
    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    parser = DefusedXMLParser(target=target, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    target.line = lambda: parser.parser.CurrentLineNumber
    try:
        for at in range(0, len(data), CHUNK):
            budget.check()
            budget.tell(at, len(data))
            parser.feed(data[at : at + CHUNK])
        parser.close()
    except DefusedXmlException:
        raise ImportRefused(
            "unsafe_xml",
            "The XML declares a document type or entities, which statements do not need.",
            next="Download the statement again from the broker or bank.",
        ) from None
    except ParseError as exc:
        line, column = getattr(exc, "position", (0, 0))
        raise ImportRefused(
            "broken_xml",
            "The XML is not well formed or was cut short.",
            where=f"line {line}, column {column}",
            next="Download the statement again; nothing of this file was used.",
        ) from None
    except (ValueError, LookupError):
        raise ImportRefused(
            "broken_xml", "The XML names an encoding that cannot be read.", next="Save it as UTF-8."
        ) from None
