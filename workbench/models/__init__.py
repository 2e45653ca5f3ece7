"""Models: source -> :class:`Model`."""

from .model import ImportCheck, Model, TensorSpec

__all__ = ["ImportCheck", "Model", "TensorSpec"]
