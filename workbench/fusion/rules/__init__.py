"""Fusion rules: one file each, most specific first (ties between rules go to the earlier one).

A rule proposes sets of operators that would make one kernel, and says of near misses what stopped them. There are
three ways to write one. As a **pattern**, from the result towards the inputs:

>>> from workbench.fusion import PatternRule, builtin_rules, patterns as p, rule
>>> from workbench.graph import from_text
>>> chain = p.repeat(p.op(kind=("elementwise", "broadcast")), p.op("matmul", dtype="float32"), min=1, max=3)
>>> epilogue = PatternRule("epilogue", chain, summary="a matmul and up to three elementwise operators")
>>> graph = from_text('''
... x: float32[8, 16]
... W: float32[16, 16] = const
... m: float32[8, 16] = matmul(x, W)
... h: float32[8, 16] = tanh(m)
... y: float32[8, 16] = nn.relu(h)
... return y, h''')
>>> for found in epilogue.propose(graph):
...     print(type(found).__name__, found.nodes, getattr(found, "detail", "is proposed"))
Candidate ('m', 'h') is proposed
Refusal ('m', 'h', 'y') h of tanh is an output of the model

As a **pattern of TVM's own language**, on models (a graph from text has no Relax module to match):

>>> def product_and_bias():
...     from workbench.fusion import RelaxPatternRule
...     from workbench.tvm_seam import relax
...     is_op, wildcard = relax.dpl.is_op, relax.dpl.wildcard
...     product = is_op("relax.matmul")(wildcard(), wildcard())
...     return RelaxPatternRule("product_and_bias", is_op("relax.add")(product, wildcard()))
>>> from workbench.graph import from_model
>>> from workbench.models import load
>>> [found.nodes for found in product_and_bias().propose(from_model(load("bias_gelu")))]
[('matmul', 'add')]

As a **Python function** on the graph, which yields sets of node ids, candidates or refusals:

>>> @rule(name="readers_of_an_input", kind="horizontal", summary="what reads the same input")
... def readers_of_an_input(graph):
...     for name in graph.inputs:
...         if len(graph.users(name)) > 1:
...             yield {user.id for user in graph.users(name)}
>>> list(readers_of_an_input.propose(graph))
[]

A file of such rules is used with ``--rules mine.py``; ``workbench rules`` lists them, each with the graph of its
``example`` before and after. What a rule proposes is only taken where it is legal and predicted, or measured, to pay.
"""

from __future__ import annotations

from collections.abc import Callable

from ._base import Candidate, Refusal, Rule
from ._example import Example, example_of
from ._pattern import PatternRule
from ._relax_pattern import RelaxPatternRule
from ._user import load_rules, propose, rule
from .attention import Attention
from .bias_activation import BiasActivation
from .conv_bn_relu import ConvBnRelu
from .elementwise_chain import ElementwiseChain
from .gelu import Gelu
from .parallel_matmul import ParallelMatmul
from .reduction import Reduction
from .residual_norm import ResidualNorm
from .rotary_projection import RotaryProjection
from .shared_reads import SharedReads
from .sibling_kernels import SiblingKernels
from .softmax import Softmax
from .swiglu import SwiGLU

_BUILTIN: tuple[Callable[[], Rule], ...] = (
    Attention, RotaryProjection, SwiGLU, ConvBnRelu, BiasActivation, Gelu, ResidualNorm, Softmax, ParallelMatmul,
    Reduction, ElementwiseChain, SharedReads, SiblingKernels,
)  # fmt: skip


def builtin_rules() -> tuple[Rule, ...]:
    """The built-in rules, in the order in which the planner asks them."""
    return tuple(make() for make in _BUILTIN)


__all__ = [
    "Candidate", "Example", "PatternRule", "Refusal", "RelaxPatternRule", "Rule", "builtin_rules", "example_of",
    "load_rules", "propose", "rule",
]  # fmt: skip
