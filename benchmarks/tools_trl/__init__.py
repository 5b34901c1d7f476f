"""Episodes with a calculator: rollwright beside TRL and its own tool loop, and the time until a task is learned."""
