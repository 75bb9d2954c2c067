"""Looking back: what the context of a recorded thread was, request by request. Pure over the record."""
