"""Jobs: whole runs from a description to results."""
