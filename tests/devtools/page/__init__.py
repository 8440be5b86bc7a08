"""The page's side of the live page: the collector and what is made of a page, in a real browser."""
