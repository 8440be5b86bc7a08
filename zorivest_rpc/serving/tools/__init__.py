"""The tools that have logic of their own, and the one handler of all that do not."""
