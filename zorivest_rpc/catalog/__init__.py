"""The tools as values."""
