"""The client core: values in, values out, no loop and no mock."""
