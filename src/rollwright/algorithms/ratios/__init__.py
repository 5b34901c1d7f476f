"""How much likelier a policy makes what was sampled: by token, by row, up to each token."""
