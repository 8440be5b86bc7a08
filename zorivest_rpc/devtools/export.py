"""Where `generate` may write: files in the directory that the operator set, and never where a link leads out of it."""

from __future__ import annotations

import os
import re
from typing import Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.private_files import write_private

__all__ = ["save"]

# no space or dot at an end, and no device of Windows: there these are other files, or none
_PART: Final = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[ ]*\.|$))(?![ ])[a-z0-9_ .()-]{0,99}[a-z0-9_()-]", re.IGNORECASE
)


def save(directory: str | None, name: str, content: bytes) -> str:
    """Write the file and return its whole path; readable for its owner alone."""
    if directory is None:
        raise ToolError(
            "save_to is refused: the operator set no directory for it (--devtools-export-dir).",
            code="no_export_dir",
            next="Leave save_to out; the text is then in the result.",
        )
    parts = name.split("/")
    if os.path.isabs(name) or not all(map(_PART.fullmatch, parts)):
        words = f'save_to "{name[:80]}" is refused: a relative name of letters, digits, _ . - ( ) and /.'
        raise ToolError(words, code="bad_name", next="Call again with a plain file name.")
    place = os.path.realpath(directory)
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        for part in parts[:-1]:
            place = os.path.join(place, part)
            _refuse_link(place, name)
            os.makedirs(place, mode=0o700, exist_ok=True)
        path = os.path.join(place, parts[-1])
        _refuse_link(path, name)
        write_private(path, content)
    except OSError as exc:
        words = f'save_to "{name}" could not be written: {exc.strerror or "the disk refused"}.'
        raise ToolError(words, code="not_written", next="Leave save_to out; the text is then in the result.") from None
    return path


def _refuse_link(path: str, name: str) -> None:
    if os.path.islink(path):
        raise ToolError(
            f'save_to "{name}" is refused: a link stands there.', code="bad_name", next="Call again with another name."
        )
