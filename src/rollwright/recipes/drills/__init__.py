"""Drills: a short training of a recipe under injected faults, and the account of what became of every slot."""
