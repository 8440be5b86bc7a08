"""Tax over the database: lots in step with the trades, profiles, payments, prices, years."""
