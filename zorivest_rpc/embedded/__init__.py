"""A whole Zorivest backend on one encrypted SQLite file; knows REST, not MCP."""
