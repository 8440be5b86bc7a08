"""Why a provider gave no answer, as one value that callers can sort, tell and turn into a status."""

from __future__ import annotations

import enum

from zorivest_rpc.errors import ZorivestError

__all__ = ["Failure", "Kind"]


class Kind(enum.StrEnum):
    """What went wrong; the value is what programs read."""

    NO_KEY = "no_key"
    DISABLED = "disabled"
    OFFLINE = "offline"  # told not to use the network
    UNREACHABLE = "connection_failed"
    TIMEOUT = "timeout"
    OUT_OF_TIME = "out_of_time"  # the question's own time was used up before this provider
    BAD_KEY = "invalid_key"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"
    BAD_ANSWER = "bad_answer"
    UNKNOWN = "unknown_symbol"
    UNSUPPORTED = "unsupported"  # this provider has no such data for this kind of instrument


class Failure(ZorivestError):
    """One provider's failure. `detail` is our own sentence, or the provider's words without any key in them."""

    def __init__(
        self, provider: str, kind: Kind, detail: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{provider}: {detail}")
        self.provider = provider
        self.kind = kind
        self.detail = detail
        self.status = status
        self.retry_after = retry_after
