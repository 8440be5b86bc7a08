"""The way to the Zorivest REST API."""
