"""Market data: providers in one order of fallback, what they said and how old it is, and the truth if none answers."""
