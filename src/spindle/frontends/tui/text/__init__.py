"""Text of any origin as lines that are fit to be shown: cleaned, coloured, laid out. Pure: no terminal, no clock."""
