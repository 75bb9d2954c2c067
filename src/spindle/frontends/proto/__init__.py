"""`spindle proto`: the engine's own queue pair as newline-delimited JSON (protocol v1)."""
