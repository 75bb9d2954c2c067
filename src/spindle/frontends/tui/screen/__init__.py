"""Bytes from and to the terminal: what was typed (`decoder`), the terminal's state (`terminal`), what is shown (`painter`,
`pager`)."""
