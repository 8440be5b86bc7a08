"""What a trader keeps: accounts, trades, round trips, plans, reports, pictures, corporate actions, currencies."""
