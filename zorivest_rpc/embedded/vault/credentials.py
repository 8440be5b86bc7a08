"""What a person enters to connect a provider, a broker or a mail server, as rows: names and labels, never values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["API_KEY", "Credential"]


@dataclass(frozen=True)
class Credential:
    """One thing that is entered. `name` is the field of the route that stores it, `label` what a person calls it."""

    name: str
    label: str
    secret: bool = True  # typed without being shown
    required: bool = True

    def describe(self) -> dict[str, Any]:
        return asdict(self)


API_KEY = Credential("api_key", "API key")
