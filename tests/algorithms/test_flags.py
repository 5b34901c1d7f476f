"""The bits are those that receipts store."""

from rollwright.algorithms import flags
from rollwright.record.rows import Flag


def test_bits_are_those_of_receipts():
    names = [name for name in vars(Flag) if name.isupper()]
    assert len(names) == 12
    for name in names:
        assert vars(flags)[name] == vars(Flag)[name]
