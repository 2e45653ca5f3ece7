"""Fusion rules: one file each, most specific first (ties between rules go to the earlier one)."""

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
