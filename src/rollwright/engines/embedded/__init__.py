"""The embedded engine: a causal LM of `transformers` on this machine, by torch."""
