"""A journal made by an earlier release, kept as files, with every row and every answer it gave at that time."""
