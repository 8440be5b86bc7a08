"""MCP as values: no await, no sockets, no clock."""
