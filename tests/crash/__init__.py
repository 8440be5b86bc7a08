"""The long crash run: a backend process killed again and again while trades are written to it over HTTP."""
