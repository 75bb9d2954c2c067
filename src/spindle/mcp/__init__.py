"""Connections to MCP servers: start, list, call, restart. Knows nothing of models, approvals or configuration files."""
