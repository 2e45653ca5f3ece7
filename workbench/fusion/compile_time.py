"""How long a kernel takes to compile once, guessed from its structure.

A line fitted to 174 distinct kernels of eight built-in models (``encoder``, ``llama_block``, ``resnet18``,
``mobilenet_v2``, ``mlp``, ``swiglu``, ``gelu``, ``residual_layernorm``), fused and apart, each scheduled with the
default schedule and compiled to an object file by ``kernels.build``; the shorter of two builds, on one core of a
two-core AVX2 machine with the LLVM that TVM 0.27 carries. The line misses half of them by 11 % or less and nine of
ten by 30 % or less; they took 0.05 to 0.27 s. Searches build every candidate once, so it counts once a trial; a tiled
schedule unrolls more and takes up to twice as long.
"""

from __future__ import annotations

BASE = 0.029  # an empty kernel: TVM's passes, LLVM's start, writing the object file
OPERATOR = 0.009
CONTRACTION = 0.009  # more than any operator: initialisation, update and what the result goes through
REDUCTION = 0.040  # more than any operator: a softmax or a norm is several loop nests, with calls of exp or rsqrt
ARGUMENT = 0.008  # unpacking, checks of shape, type and alignment


def compile_seconds(operators: int, contractions: int, reductions: int, arguments: int) -> float:
    """Estimated seconds for a kernel of so many operators, of them contractions and reductions, and tensor arguments.

    >>> round(compile_seconds(operators=2, contractions=1, reductions=0, arguments=4), 3)
    0.088
    """
    return BASE + OPERATOR * operators + CONTRACTION * contractions + REDUCTION * reductions + ARGUMENT * arguments
