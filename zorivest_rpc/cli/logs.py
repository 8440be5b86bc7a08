"""Where the log goes: stderr or a file, never stdout."""

from __future__ import annotations

import logging

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError

__all__ = ["set_up_logging"]


def set_up_logging(settings: Settings) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if settings.log_file:
        try:
            handler = logging.FileHandler(settings.log_file)
        except OSError as exc:
            raise ConfigError("--log-file", f"{settings.log_file} cannot be written: {exc.strerror}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    if settings.untrusted:
        logging.getLogger(__name__).warning(
            '%s is not used: it may come with a repository. Look at it, then run "zorivest-rpc mcp pin" to trust it.',
            settings.untrusted,
        )
