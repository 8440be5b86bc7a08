"""Where the clone is, for tests that read or run its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["ROOT"]

ROOT: Final = Path(__file__).resolve().parent.parent
