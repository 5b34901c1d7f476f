"""Tokens of other weights and of another engine: dropped, weighed, or scored over what could be drawn."""
