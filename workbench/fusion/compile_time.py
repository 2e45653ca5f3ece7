"""How long a kernel takes to compile once, guessed from its structure.

A line fitted to 132 distinct kernels of eight built-in models (``encoder``, ``llama_block``, ``resnet18``,
``pool_add``, ``gelu``, ``residual_layernorm``, ``conv_bn_relu``, ``mha``), fused and apart: applying the default
schedule and compiling to an object file with ``kernels.build``, the least processor time of three, on a two-core AVX2
machine with the LLVM that TVM 0.27 carries. They took 0.045 to 0.27 s; the line misses half of them by less than 10 %
and nine of ten by less than 32 %. Every trial of a search compiles once; what a tiled schedule unrolls comes on top.
"""

from __future__ import annotations

BASE = 0.022  # an empty kernel: TVM's passes, LLVM's start, writing the object file
OPERATOR = 0.007
CONTRACTION = 0.008  # more than any operator: initialisation, update and what the result goes through
REDUCTION = 0.035  # more than any operator: a softmax or a norm is several loop nests, with calls of exp or rsqrt
ARGUMENT = 0.011  # unpacking, checks of shape, type and alignment


def compile_seconds(operators: int, contractions: int, reductions: int, arguments: int) -> float:
    """Estimated seconds for a kernel of so many operators, of them contractions and reductions, and tensor arguments.

    >>> round(compile_seconds(operators=2, contractions=1, reductions=0, arguments=4), 3)
    0.088
    """
    return BASE + OPERATOR * operators + CONTRACTION * contractions + REDUCTION * reductions + ARGUMENT * arguments
