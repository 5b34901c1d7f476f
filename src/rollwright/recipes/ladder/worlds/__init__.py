"""The worlds of the ladder: letters to put in order, one tool with four slices, and both mixed."""
