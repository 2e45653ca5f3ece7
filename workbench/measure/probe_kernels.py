"""The two tensor programs of the machine probe, in TVM's script language."""

# Annotations here are TVMScript's, evaluated by its parser: no postponed evaluation and no type check in this file.
# mypy: disable-error-code="no-untyped-def, valid-type"

from typing import Any

from tvm.script import tirx as T

from ..tvm_seam import tvm  # noqa: F401  checks the versions before TVM is imported below


def multiply_add(threads: int, width: int, lanes: int, iterations: int) -> Any:
    """``data[threads, width]``, float32, in place: x = x * a + b, ``iterations`` times, in registers."""

    @T.prim_func
    def main(data: T.Buffer((threads, width), "float32")):
        T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
        for thread in T.parallel(threads):
            sums = T.alloc_buffer((width,), "float32", scope="local")
            for chain in T.unroll(width // lanes):
                for lane in T.vectorized(lanes):
                    sums[chain * lanes + lane] = data[thread, chain * lanes + lane]
            for _ in range(iterations):
                for chain in T.unroll(width // lanes):
                    for lane in T.vectorized(lanes):
                        sums[chain * lanes + lane] = sums[chain * lanes + lane] * T.float32(0.5) + T.float32(0.25)
            for chain in T.unroll(width // lanes):
                for lane in T.vectorized(lanes):
                    data[thread, chain * lanes + lane] = sums[chain * lanes + lane]

    return main


def triad(threads: int, elements: int, lanes: int) -> Any:
    """``c = a + 3 * b`` over float32 arrays of ``elements``, one run of them a thread."""
    rows = elements // threads // lanes

    @T.prim_func
    def main(
        a: T.Buffer((elements,), "float32"), b: T.Buffer((elements,), "float32"), c: T.Buffer((elements,), "float32")
    ):
        T.func_attr({"tirx.noalias": True, "tirx.is_scheduled": True})
        for thread in T.parallel(threads):
            for row in range(rows):
                for lane in T.vectorized(lanes):
                    c[(thread * rows + row) * lanes + lane] = (
                        a[(thread * rows + row) * lanes + lane] + T.float32(3) * b[(thread * rows + row) * lanes + lane]
                    )

    return main
