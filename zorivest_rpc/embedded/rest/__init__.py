"""REST over the journal: routing, uploads, and one module of routes per area."""
