"""The product's tool files: their shape, the rules they keep, the toolsets, and the search over them."""
