"""The immutable dataflow view of a model."""

from .graph import Graph, IterationSpace, Node, Value, from_model

__all__ = ["Graph", "IterationSpace", "Node", "Value", "from_model"]
