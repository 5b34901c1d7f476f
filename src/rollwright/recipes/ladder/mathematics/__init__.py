"""Level 0: the mathematics by hand, by equation and by code, without a model. Loaded when the level is climbed."""
