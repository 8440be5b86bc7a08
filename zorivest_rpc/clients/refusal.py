"""Why a client's configuration file was left as it is."""

from __future__ import annotations

from zorivest_rpc.errors import ZorivestError

__all__ = ["ClientFileRefused"]


class ClientFileRefused(ZorivestError):
    """What is wrong, where, and what the user can do about it; never a word of the file's content."""

    def __init__(self, problem: str, next: str, where: str = "") -> None:
        super().__init__(f"{where + ': ' if where else ''}{problem}. {next}")
        self.problem = problem
        self.next = next
        self.where = where

    def at(self, path: str) -> ClientFileRefused:
        """The same refusal with the file's name in front of the position."""
        return ClientFileRefused(self.problem, self.next, f"{path}{', ' if self.where else ''}{self.where}")
