"""Front ends: each translates the one event stream for one kind of listener. None imports another."""
