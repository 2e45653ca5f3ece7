"""What an importer is, and which one reads a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from .model import Model


@dataclass(frozen=True)
class Request:
    """What the caller gave: the source, and what may be needed to read it.

    ``args`` are example tensors for an ``nn.Module``; ``batch`` is the size of the one symbolic leading dimension;
    ``name`` replaces the name that the importer would choose.
    """

    source: object
    args: tuple[object, ...] | None = None
    batch: int | None = None
    name: str | None = None

    @property
    def text(self) -> str | None:
        """The source when it is a string or a path."""
        return self.source if isinstance(self.source, str) else None


class Importer(ABC):
    """Reads one kind of source. Importers share no state, and import their framework only inside :meth:`read`."""

    kind: str  # what the importer reads, for the error that lists all of them

    @abstractmethod
    def accepts(self, request: Request) -> bool:
        """Whether the source is of this importer's kind; looks at the source alone and opens nothing."""

    @abstractmethod
    def read(self, request: Request) -> Model:
        """The model. Raises ModelError and its kinds for a source that is missing, broken or not supported."""
