"""United States tax arithmetic as pure functions: lots, wash sales, estimates; no database, no clock, no network.

Read in this order: `model` (the words), `lot` (one tax lot), `book` (executions in, lots and wash sales out),
`estimate` (a year's gains in, tax out); `simulate`, `quarterly`, `harvest`, `summary`, `views` and `washes` each answer
one question."""
