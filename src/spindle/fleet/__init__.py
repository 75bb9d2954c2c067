"""Many tasks, one record each. Nothing of this is loaded by another command than `spindle fleet`."""
