"""What a token weighs, made once on all rows of an update."""
