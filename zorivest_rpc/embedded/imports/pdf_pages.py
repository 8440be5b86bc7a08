"""Text and tables of a PDF's pages, extracted by a process of its own (`pdf_child.py`).

A hostile file can make its parser loop, fill the memory or crash the interpreter. In a child that has limits, none of
this reaches the process that holds the journal's key."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from zorivest_rpc.embedded.imports.drafts import ImportRefused
from zorivest_rpc.embedded.imports.pdf_safety import CONTENT
from zorivest_rpc.embedded.imports.source import Budget

__all__ = ["PdfPage", "extract_pages", "refuse_encrypted"]

_CHILD: Final = Path(__file__).with_name("pdf_child.py")
_PASSED: Final = ("SYSTEMROOT", "LANG")
_GLANCE: Final = 0.05  # seconds between two looks at the deadline while the child is silent
_MOST_TEXT: Final = 128 * 1024 * 1024  # bytes of extracted text that are taken in all
_TOO_MUCH_MEMORY: Final = "The PDF takes far more memory to read than a statement does."
_ELSEWHERE: Final = "Print the statement to a new PDF, or export it as CSV."


class PdfPage(msgspec.Struct, frozen=True):
    number: int
    text: str
    tables: list[list[list[str]]]


def refuse_encrypted() -> ImportRefused:
    return ImportRefused(
        "encrypted_pdf", "The PDF is encrypted.", next="Save a copy without a password and import that."
    )


def extract_pages(data: bytes, budget: Budget) -> list[PdfPage]:
    """Every page of a PDF, or ImportRefused. It waits for a process, so it belongs on a thread."""
    child = subprocess.Popen(
        [sys.executable, "-I", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED if name in os.environ},
    )
    try:
        return _collect(child, data, budget)
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):  # what could not be written to a child that died is of no use any more
                assert pipe is not None
                pipe.close()


def _collect(child: subprocess.Popen[bytes], data: bytes, budget: Budget) -> list[PdfPage]:
    limits = budget.limits
    request = {
        "bytes": len(data),
        "memory": limits.max_pdf_memory,
        "pages": limits.max_pages,
        "content": CONTENT,
        "page_seconds": limits.max_page_seconds,
    }
    pages: list[PdfPage] = []
    total = size = 0
    for line in _lines(child, json.dumps(request).encode() + b"\n" + data, budget):
        size += len(line)
        answer: dict[str, Any] = json.loads(line)
        if "stop" in answer:
            if answer["stop"] != "end":
                raise _refusal(answer)
            return pages
        if "total" in answer:
            total = answer["total"]
            _check_count(total, limits.max_pages)
        else:
            tables = [[[_flatten(cell) for cell in row] for row in table] for table in answer["tables"]]
            pages.append(PdfPage(answer["number"], answer["text"], tables))
            budget.tell(answer["number"], total)
        if size > _MOST_TEXT:
            raise _unsafe("The PDF holds far more text than a statement does.")
    raise _explain_death(child.wait())


def _lines(child: subprocess.Popen[bytes], request: bytes, budget: Budget) -> Iterator[bytes]:
    """The child's lines as they come. Two threads own the pipes: a pipe cannot be waited for with a deadline."""
    assert child.stdin is not None
    assert child.stdout is not None
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threads = (
        threading.Thread(target=_send, args=(child.stdin, request), daemon=True),
        threading.Thread(target=_receive, args=(child.stdout, lines), daemon=True),
    )
    for thread in threads:
        thread.start()
    try:
        while True:
            budget.check()
            try:
                line = lines.get(timeout=_GLANCE)
            except queue.Empty:
                continue
            if not line:
                return
            yield line
    finally:
        child.kill()
        for thread in threads:
            thread.join()


def _send(pipe: IO[bytes], request: bytes) -> None:
    with suppress(OSError):  # a child that died before it read everything is told by the end of its output
        pipe.write(request)
        pipe.flush()


def _receive(pipe: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    for line in pipe:
        lines.put(line)
    lines.put(b"")


def _check_count(total: int, most: int) -> None:
    if total > most:
        raise ImportRefused(
            "too_many_pages",
            f"The PDF has {total} pages; at most {most} are read.",
            next="Split the statement into months.",
            status=413,
        )


def _refusal(answer: dict[str, Any]) -> ImportRefused:
    match answer["stop"]:
        case "encrypted":
            return refuse_encrypted()
        case "content":
            what = "A page unpacks to far more than a statement holds."
            return _unsafe(what, where=f"page {answer['page']}")
        case "memory":
            return _unsafe(_TOO_MUCH_MEMORY)
        case _:
            return _broken()


def _explain_death(code: int) -> ImportRefused:
    """The child ended without a last word: it ran out of time, or the parser crashed the interpreter.

    CPython aborts where memory ends while it handles a MemoryError ("Cannot recover from MemoryErrors"), or the stack
    while it handles a RecursionError; which of them a limit meets depends on the allocation that happens to fail."""
    if code == -getattr(signal, "SIGXCPU", 0):
        return _unsafe("The PDF takes far longer to read than a statement does.")
    if code == -signal.SIGABRT:
        return _unsafe(_TOO_MUCH_MEMORY)
    return _broken()


def _broken() -> ImportRefused:
    return ImportRefused(
        "broken_pdf",
        "The PDF cannot be read; it is damaged or was cut short.",
        next="Download the statement again; nothing of this file was used.",
    )


def _unsafe(what: str, *, where: str = "") -> ImportRefused:
    return ImportRefused("unsafe_pdf", what, where=where, next=_ELSEWHERE)


def _flatten(cell: str | None) -> str:
    return " ".join((cell or "").split())
