"""Who pays: stored logins, keys from the environment, and which of them a provider gets. Values are never logged."""
