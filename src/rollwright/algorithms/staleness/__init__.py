"""How old a token is, and what becomes of what is too old, late or incomplete."""
