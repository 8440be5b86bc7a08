"""Every refusal of the embedded backend, one exception per status of the error envelope.

    Refusal(status, code, detail)
    ├── BadRequest 400        a confirmation is missing, an action is unknown, a run is refused
    ├── Unauthorized 401      a wrong key, an expired or unknown session: unlock again
    ├── Forbidden 403         no session, locked, role too low, revoked, guarded
    ├── NotFound 404          no such thing
    ├── MethodNotAllowed 405
    ├── Conflict 409          duplicate, still referenced, already running
    ├── TooLarge 413          the body is over the route's limit
    ├── Invalid 422           the input is wrong, per field
    ├── Busy 423              another process holds the database file
    ├── TooMany 429           a rate budget is spent
    ├── Corrupt 500           the database cannot be read with this key
    ├── BadUpstream 502       a provider answered badly
    └── Unavailable 503       nothing usable at the moment: offline, not configured

A handler raises; `app.py` turns it into `{"error", "detail", "request_id"}` and that is the only place that does.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BadRequest",
    "BadUpstream",
    "Busy",
    "Conflict",
    "Corrupt",
    "Forbidden",
    "Invalid",
    "MethodNotAllowed",
    "NotFound",
    "Refusal",
    "TooLarge",
    "TooMany",
    "Unauthorized",
    "Unavailable",
]


class Refusal(Exception):
    """A request that is answered with the error envelope; `extra` fields stand beside `error` and `detail`."""

    status = 500

    def __init__(self, code: str, detail: Any, **extra: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.extra = extra

    def envelope(self, request_id: str) -> dict[str, Any]:
        return {"error": self.code, "detail": self.detail, "request_id": request_id, **self.extra}


class BadRequest(Refusal):
    status = 400


class Unauthorized(Refusal):
    status = 401


class Forbidden(Refusal):
    status = 403


class NotFound(Refusal):
    """`NotFound("trade", "E-1")` says which thing by which name."""

    status = 404

    def __init__(self, kind: str, name: object, hint: str = "") -> None:
        super().__init__(f"{kind.replace(' ', '_')}_not_found", f'No {kind} "{name}".' + (f" {hint}" if hint else ""))


class MethodNotAllowed(Refusal):
    status = 405


class Conflict(Refusal):
    status = 409


class TooLarge(Refusal):
    status = 413

    def __init__(self, limit: int, what: str = "body") -> None:
        super().__init__("too_large", f"The {what} is larger than {limit} bytes.")


class Invalid(Refusal):
    """Wrong input; `errors` maps a field to what is wrong with it."""

    status = 422

    def __init__(self, errors: dict[str, list[str]] | str, code: str = "validation_error") -> None:
        super().__init__(code, errors if isinstance(errors, str) else {"errors": errors})


class Busy(Refusal):
    status = 423


class TooMany(Refusal):
    status = 429


class Corrupt(Refusal):
    status = 500


class BadUpstream(Refusal):
    status = 502


class Unavailable(Refusal):
    status = 503
