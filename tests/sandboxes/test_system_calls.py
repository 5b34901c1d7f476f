"""The filter of system calls, as data; that it holds is shown by the programs that run behind it."""

import pytest

from rollwright.sandboxes import SandboxUnavailableError
from rollwright.sandboxes.system_calls import AARCH64, SHARED_NUMBERS, X86_64, system_call_filter

INSTRUCTION_BYTES = 8
MOST_INSTRUCTIONS = 4_096


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_fits_the_kernel_and_ends_in_an_allowance(machine: str) -> None:
    instructions = system_call_filter("process", machine)
    assert len(instructions) % INSTRUCTION_BYTES == 0
    assert len(instructions) // INSTRUCTION_BYTES < MOST_INSTRUCTIONS
    assert instructions[-INSTRUCTION_BYTES:] == bytes.fromhex("0600000000 00ff7f")


def test_both_architectures_refuse_the_same_calls_where_both_have_them() -> None:
    only_on_x86 = {"uselib", "ustat", "sysfs", "modify_ldt", "_sysctl", "iopl", "ioperm", "create_module",
                   "get_kernel_syms", "query_module"}  # fmt: skip
    assert set(X86_64) - set(AARCH64) == only_on_x86
    assert set(AARCH64) <= set(X86_64)
    assert not set(SHARED_NUMBERS) & set(X86_64)


def test_an_architecture_without_a_list_is_refused_by_name() -> None:
    with pytest.raises(SandboxUnavailableError, match="riscv64"):
        system_call_filter("namespaces", "riscv64")
