"""A live web page, observed: what its collector sends, what is kept of it, and the five tools that read it."""
