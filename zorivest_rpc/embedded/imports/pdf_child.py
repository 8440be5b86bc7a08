"""The process in which a PDF is parsed: it reads the file from stdin and writes text and tables, one page a line.

Run as a script by `pdf_pages.py`; it imports nothing of this project. The parser meets files that strangers made, so
the process has no environment, bounded memory and bounded processor time for each page, and cannot write files. Input
is one line of limits, then the bytes; stdin stays open as long as the parent lives. Output is one JSON object a line:
the number of pages, each page, or the reason to stop."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from typing import Any

_OUT_OF_MEMORY = b'{"stop": "memory"}\n'
_BROKEN = b'{"stop": "broken"}\n'


def restrict(memory: int) -> None:
    """Set the limits that the platform has. Windows has none: there only the parent's deadline ends the process."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (limit, limit))
        except (ValueError, OSError):
            continue


def allow_seconds(seconds: int) -> None:
    """Let the next page take this much processor time; beyond it the kernel ends the process with SIGXCPU."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def end_with_parent() -> None:
    """End when stdin does: a parser that goes round for ever would outlive a parent that was killed."""
    sys.stdin.buffer.read(1)
    os._exit(1)


def write(answer: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def read_pages(data: bytes, max_pages: int, max_content: int, page_seconds: int) -> None:
    import pdfplumber
    from pdfminer.pdftypes import stream_value

    allow_seconds(page_seconds)
    document = pdfplumber.open(io.BytesIO(data))  # never closed: closing walks the pages again
    if getattr(document.doc, "encryption", None):
        return write({"stop": "encrypted"})
    total = len(document.pages)
    write({"total": total})
    if total > max_pages:
        return None
    for number, page in enumerate(document.pages, start=1):
        allow_seconds(page_seconds)
        size = sum(len(stream_value(part).get_data()) for part in page.page_obj.contents)
        if size > max_content:
            return write({"stop": "content", "page": number})
        write({"number": number, "text": page.extract_text() or "", "tables": page.extract_tables()})
        page.close()
    return write({"stop": "end"})


def ran_out(error: BaseException | None) -> bool:
    """The parser wraps what stopped it in errors of its own."""
    return error is not None and (
        isinstance(error, MemoryError | RecursionError) or ran_out(error.__cause__ or error.__context__)
    )


def main() -> int:
    request = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(request["bytes"])
    threading.Thread(target=end_with_parent, daemon=True).start()
    # before the limit of memory: a library that cannot be mapped must not be told as a fault of the file
    import pdfminer.pdftypes  # noqa: F401
    import pdfplumber  # noqa: F401

    restrict(request["memory"])
    try:
        read_pages(data, request["pages"], request["content"], request["page_seconds"])
        return 0
    except Exception as error:  # noqa: BLE001 - the parser meets broken files with any exception there is
        last_word = _OUT_OF_MEMORY if ran_out(error) else _BROKEN
    # outside the handler, whose error keeps what fills the memory alive; and without making a new object
    os.write(1, last_word)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # not the interpreter's own end, which would wait for the thread that reads stdin
