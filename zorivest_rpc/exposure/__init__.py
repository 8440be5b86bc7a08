"""Lists that follow the state: rules in tool files, counters they test, and who is told when a list became another."""
