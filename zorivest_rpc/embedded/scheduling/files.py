"""What report files are called: never a path, always the same for the same report."""

from __future__ import annotations

import re

__all__ = ["file_name"]

_MOST = 60


def file_name(report: str, as_of: str, digest: str, suffix: str) -> str:
    """A name of plain letters; the first digits of the digest keep two reports of one name apart."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", report).strip("-").lower()[:_MOST] or "report"
    return f"{slug}-{as_of}-{digest[:8]}{suffix}"
