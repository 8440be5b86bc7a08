"""The demo journal: its story, its books, loading and removing it."""
