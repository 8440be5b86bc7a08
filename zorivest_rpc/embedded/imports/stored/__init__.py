"""Drafts from files on their way into the journal: recognised, ordered, recorded once."""
