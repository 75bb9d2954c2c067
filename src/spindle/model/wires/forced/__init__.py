"""Chat Completions for the model inside: a grammar makes each of its answers one JSON object, a call or a text."""
