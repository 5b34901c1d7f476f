"""What a person writes: typed configuration, presets, and the wiring that turns them into a run."""
