"""Hours of use in minutes: whether anything grows or slows with age."""
