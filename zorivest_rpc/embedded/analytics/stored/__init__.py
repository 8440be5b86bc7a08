"""Analytics over the database: reads what the pure functions beside it need, and keeps what they find."""
