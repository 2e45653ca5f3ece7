"""Patterns of operators, written from the result towards the inputs.

>>> x = anything("x")
>>> silu = one_of(op("nn.silu", inputs=[x]), op("multiply", inputs=[x, op("sigmoid", inputs=[x])]))
>>> gated = op("multiply", inputs=[silu, anything("up")])
>>> gated.names
('multiply',)

The same name twice is the same value. Operands of ``add``, ``multiply`` and their kin match in either order.
``optional`` and ``repeat`` take a step, with ``HERE`` for the operand that leads on, and what comes before it:

>>> biased = optional(op("add", inputs=[HERE, constant("bias")]), op("matmul", name="product"))
>>> chain = repeat(op(kind=("elementwise", "broadcast")), biased, min=1, max=8)

``rules.PatternRule`` makes a fusion rule of a pattern; ``find`` tries one on a graph.
"""

from ._match import Found, Miss, find
from ._pattern import HERE, Pattern, anything, bind, constant, one_of, op, optional, producers, region, repeat

__all__ = [
    "HERE", "Found", "Miss", "Pattern", "anything", "bind", "constant", "find", "one_of", "op", "optional",
    "producers", "region", "repeat",
]  # fmt: skip
