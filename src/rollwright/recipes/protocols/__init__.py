"""Protocols as files: those that ship beside this module, and those that a user writes."""

from rollwright.recipes.protocols.reading import (
    expand_protocols,
    protocol_names,
    read_protocol,
)

__all__ = ["expand_protocols", "protocol_names", "read_protocol"]
