"""`spindle mcp-server`: other agents run turns through the tools `codex` and `codex-reply`."""
