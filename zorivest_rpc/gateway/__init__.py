"""Other MCP servers ("upstreams") behind one policy: configuration, discovery, names, trust, and the way of a call."""
