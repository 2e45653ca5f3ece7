"""Builders: scheduled modules -> object files and shared libraries."""

from ._base import Builder, BuildResult
from .fake import FakeBuilder
from .local import LocalBuilder

__all__ = ["BuildResult", "Builder", "FakeBuilder", "LocalBuilder"]
