"""The live page: what the collector sees and sends, what the server keeps of it, and what is made of that."""
