"""`spindle mcp`: the configured MCP servers."""
