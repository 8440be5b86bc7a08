"""Broker connections: who they are, how fills are fetched from them, and how fills reach the journal once."""
