"""Completion scripts for shells, made from the table of commands."""
