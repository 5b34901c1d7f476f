"""A step of rollwright beside a step of TRL: same weights, prompts, groups, limits and hyper-parameters."""
