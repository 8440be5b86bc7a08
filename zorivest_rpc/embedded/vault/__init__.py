"""Keys and sessions: who may open the journal, and what may be done with it once."""
