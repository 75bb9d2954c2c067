"""Keeping a thread within its window: compaction, and clearing old outputs by rule."""
