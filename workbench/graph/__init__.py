"""The immutable dataflow view of a model."""

from .graph import Graph, IterationSpace, Node, Value, dtype_bytes, from_function, from_model

__all__ = ["Graph", "IterationSpace", "Node", "Value", "dtype_bytes", "from_function", "from_model"]
