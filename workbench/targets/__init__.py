"""Targets: a name or the device -> :class:`Target`."""

from .target import Caches, Target

__all__ = ["Caches", "Target"]
