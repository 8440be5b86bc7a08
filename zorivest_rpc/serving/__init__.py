"""The journal as an MCP server: what a client is shown, what happens around a call, and the way to the backend."""
