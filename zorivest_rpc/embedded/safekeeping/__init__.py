"""Backups made on time, and their restoration."""
