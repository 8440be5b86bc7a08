"""Where the log goes: stderr or a file, never stdout."""

from __future__ import annotations

import logging

from zorivest_rpc.config import Settings

__all__ = ["set_up_logging"]


def set_up_logging(settings: Settings) -> None:
    handler: logging.Handler = logging.FileHandler(settings.log_file) if settings.log_file else logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
