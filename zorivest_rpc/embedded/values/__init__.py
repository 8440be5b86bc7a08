"""What several rooms speak of: instruments, periods, currencies, the fields of a request. No storage, no clock."""
