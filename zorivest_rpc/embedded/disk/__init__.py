"""The files of a data directory: paths and modes, locks, logs, backups."""
