"""Mutation testing: change one operator of a critical module at a time and see whether a test fails."""
