"""The Responses API over a WebSocket, for providers that offer it."""
