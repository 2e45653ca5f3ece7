"""Models: source -> :class:`Model`."""

from ._load import builtin_models, load
from .model import ImportCheck, Model, TensorSpec

__all__ = ["ImportCheck", "Model", "TensorSpec", "builtin_models", "load"]
