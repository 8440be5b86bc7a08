"""The configuration files of MCP clients: where they are, what an entry is, how one is put in and taken out."""
