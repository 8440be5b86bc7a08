"""The tables, one module per area. A new table says which version brings it; `migrate` does the rest."""
