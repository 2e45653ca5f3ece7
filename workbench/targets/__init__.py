"""Targets: a name or the device -> :class:`Target`."""

from .resolve import resolve
from .target import Caches, Target

__all__ = ["Caches", "Target", "resolve"]
