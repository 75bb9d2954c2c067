"""Chat Completions: the dialect that most model servers understand."""
