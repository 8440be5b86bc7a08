"""The embedded backend, tested through its REST interface, its files and its processes."""
