"""A model inside: GGUF files of the user's own, and the child process that runs one. Loaded where one is used."""
