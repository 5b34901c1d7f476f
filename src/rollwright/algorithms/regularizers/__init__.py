"""Terms beside the main one and what shapes rewards by length; the controllers that follow a metric."""
