"""`spindle exec`: one turn without a UI."""
