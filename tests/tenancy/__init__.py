"""The whole suite once more in front of a server with tenancy on: `pytest --tenancy`."""
