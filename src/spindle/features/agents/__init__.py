"""Sub-agents: sessions that the model of a session starts and talks to."""
