"""The methods of the app-server, by topic. Each module lists its own in `METHODS`."""
