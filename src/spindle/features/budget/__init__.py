"""What a turn, a thread and a day may use: budgets as a feature of a session."""
