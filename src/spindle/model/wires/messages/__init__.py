"""Anthropic Messages: `POST {base_url}/messages`."""
