"""The catalogue: every method with formula, source and place; every part of an objective with its formula."""
