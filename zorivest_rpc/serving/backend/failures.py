"""What to say when there is no answer, or one that cannot be used: what happened, to what, and what to do."""

from __future__ import annotations

import os

from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown

__all__ = [
    "explain_outage",
    "no_answer",
    "not_found_anywhere",
    "not_json",
    "stopping",
    "too_large",
    "unreachable",
    "why",
]


_BY_ITSELF = "Call again: the embedded backend is started by itself."


def unreachable(base: str, reason: str, *, found: bool = False) -> BackendUnreachable:
    """`found`: it is the embedded backend, which starts by itself."""
    if found:
        problem = f"The embedded backend cannot be reached ({reason}); nothing was sent."
        return BackendUnreachable(f"{problem} {_BY_ITSELF}", next=_BY_ITSELF, problem=problem)
    problem = f"The backend at {base} cannot be reached ({reason}); nothing was sent."
    return BackendUnreachable(
        f"{problem} Check that it runs and that the API URL is right; zorivest_diagnose shows what is known.",
        next="Start the backend or correct the API URL.",
        problem=problem,
    )


def explain_outage(base: str, waits: float, *, found: bool = False) -> BackendUnreachable:
    seconds = max(1, round(waits))
    which = "The embedded backend" if found else f"The backend at {base}"
    return BackendUnreachable(
        f"{which} did not answer the last requests; nothing was sent. It is tried again in {seconds} s.",
        code="backend_down",
        next=f"Wait {seconds} s and call again." if found else "Wait, or start the backend.",
    )


def stopping(base: str) -> BackendUnreachable:
    return BackendUnreachable(
        f"This server is stopping and sends nothing more to {base}; nothing was sent.",
        code="stopping",
        next="Connect again when the server runs.",
    )


def not_found_anywhere(reason: str) -> BackendUnreachable:
    problem = f"There is no backend to ask: {reason.rstrip('.')}."
    return BackendUnreachable(
        f'{problem} Call again; "zorivest-rpc doctor" tells what is in the way.',
        code="no_backend",
        next='Call again, or have the user run "zorivest-rpc doctor".',
        problem=problem,
    )


def no_answer(
    base: str, method: str, path: str, reason: str, *, unknown: bool, late: bool = False
) -> BackendUnreachable | OutcomeUnknown:
    """`unknown`: it was sent, and it is not known whether it was done. `late`: its time was up."""
    what = f"{method} {path.partition('?')[0]}"
    if unknown and method != "GET":
        problem = f"The backend did not answer {what} ({reason})."
        return OutcomeUnknown(
            f"{problem} Whether it was done is unknown; it was not sent again.",
            next="Check the stored data before you repeat the call.",
            problem=problem,
        )
    problem = f"The backend at {base} did not answer {what} ({reason})."
    return BackendUnreachable(
        f"{problem} Try again; zorivest_diagnose shows whether it is up.",
        code="backend_timeout" if late else "backend_unreachable",
        next="Try again.",
        problem=problem,
    )


def too_large(method: str, path: str, status: int, limit: int) -> BackendError:
    though = "" if method == "GET" else f", though the backend said {status}"
    problem = f"The answer to {method} {path.partition('?')[0]} is larger than {limit} bytes and was not read{though}."
    return BackendError(
        status,
        f"{problem} Ask for less: a smaller limit, a shorter period, one account.",
        code="answer_too_large",
        next="Ask for less.",
        problem=problem,
    )


def not_json(
    base: str, method: str, path: str, status: int, problem: str, request_id: str, *, unknown: bool
) -> BackendError:
    """`unknown`: it was a write, and it is not known whether it was done."""
    done = "Whether it was done is unknown: check the stored data before you repeat the call. " if unknown else ""
    told = f"{base} answered {method} {path.partition('?')[0]} with {problem} ({status}, request {request_id})."
    return BackendError(
        status,
        f"{told} {done}Check that the API URL names a Zorivest backend.",
        code="not_json",
        next="Check the stored data and the API URL." if unknown else "Check the API URL.",
        problem=told,
    )


def why(exc: BaseException) -> str:
    """A foreign exception in a few words."""
    name = type(exc).__name__
    if "Timeout" in name:
        return "timed out"
    if "DNS" in name:
        return "the host name is unknown"
    if "SSL" in name or "Certificate" in name:
        return "TLS failed"
    if name in ("ClientResponseError", "HttpProcessingError"):
        return "what came back is not HTTP"
    strerror = getattr(exc, "strerror", None) or getattr(getattr(exc, "os_error", None), "strerror", None)
    if "Connector" in name:
        number = getattr(getattr(exc, "os_error", None), "errno", None)
        if number and str(strerror).startswith("Connect call failed"):  # asyncio's words, with a tuple in them
            strerror = os.strerror(number)
        return str(strerror or "no connection").lower()
    return "the connection was lost" if not strerror else str(strerror).lower()
