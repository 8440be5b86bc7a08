"""Broker and bank files read into drafts, as pure functions: bytes and hints in, drafts, row errors and facts out."""
