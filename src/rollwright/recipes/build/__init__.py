"""The wiring: configuration in, objects out; the only place where a name picks behavior."""
