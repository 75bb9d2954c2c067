"""The hooks that a person configures: commands that are asked at the moments of a session."""
