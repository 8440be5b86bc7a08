"""The protocol machine: MCP in every revision, over any transport; knows no trading, no backends, no client names."""
