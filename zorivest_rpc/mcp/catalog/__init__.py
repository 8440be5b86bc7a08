"""Tools as values: a definition, its encoded pieces, its compiled validators, and what one session lists of them."""
