"""How bytes reach the dispatcher and go back: stdio, HTTP, memory."""
