"""zorivest-rpc: a Model Context Protocol server, written from scratch, for a trader's journal."""

__version__ = "0.1.0"
