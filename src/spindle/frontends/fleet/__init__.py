"""`spindle fleet`: the command line of the fleet. What it does is in `spindle.fleet`."""
