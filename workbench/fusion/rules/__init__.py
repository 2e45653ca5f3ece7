"""Fusion rules: one file each, most specific first (ties between rules go to the earlier one)."""

from ._base import Candidate, Refusal, Rule
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
from .softmax import Softmax
from .swiglu import SwiGLU

_BUILTIN: tuple[type[Rule], ...] = (
    Attention, SwiGLU, ConvBnRelu, BiasActivation, Gelu, ResidualNorm, Softmax, ParallelMatmul, Reduction,
    ElementwiseChain,
)  # fmt: skip


def builtin_rules() -> tuple[Rule, ...]:
    """The built-in rules, in the order in which the planner asks them."""
    return tuple(rule_class() for rule_class in _BUILTIN)


__all__ = [
    "Candidate", "PatternRule", "Refusal", "RelaxPatternRule", "Rule", "builtin_rules", "load_rules", "propose", "rule",
]  # fmt: skip
