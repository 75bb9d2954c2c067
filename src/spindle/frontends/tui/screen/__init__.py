"""Bytes from and to the terminal: what was typed (`decoder`), how the terminal is set (`terminal`), what is shown
(`painter`, `pager`)."""
