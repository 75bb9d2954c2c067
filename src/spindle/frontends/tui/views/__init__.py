"""Questions and lists that stand in the place of the composer until they are answered. Pure: keys in, lines out."""
