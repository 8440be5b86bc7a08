"""MCP as a client speaks it: a value machine beside the server's, on the same envelopes, revisions and headers."""
