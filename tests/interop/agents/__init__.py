"""Real agents from npm, driven by a scripted model, against the installed command."""
