"""The immutable dataflow view of a model."""

from .graph import Graph, IterationSpace, Node, Value, dtype_bytes, from_function, from_model
from .text import from_text, to_text

__all__ = [
    "Graph", "IterationSpace", "Node", "Value", "dtype_bytes", "from_function", "from_model", "from_text", "to_text",
]  # fmt: skip
