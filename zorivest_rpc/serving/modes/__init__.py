"""What adapts to the client."""
