"""What a turn did to files, kept so that it can be undone."""
