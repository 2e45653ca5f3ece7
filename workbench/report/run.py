"""A run: one execution of the main job, with all that is needed to show, repeat and compare it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from ..errors import InputError
from .document import (
    BudgetPart,
    CachePart,
    EnvironmentPart,
    GroupMeasured,
    ModelPart,
    Part,
    PlanPart,
    TargetPart,
    TaskPart,
    VariantPart,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1
FILE_NAME = "run.json"


class Run(Part):
    """What ``run.json`` holds. Immutable; every plot and page is made from it alone.

    ``groups_measured`` has one entry a kernel call and variant; ``timings_s`` the seconds of each stage of the job.
    """

    schema_version: int = Field(default=SCHEMA, alias="schema")
    workbench: str
    created: str
    command: str
    complete: bool
    incomplete_reason: str = ""
    model: ModelPart
    target: TargetPart
    environment: EnvironmentPart
    budget: BudgetPart
    plan: PlanPart
    tasks: tuple[TaskPart, ...] = ()
    variants: tuple[VariantPart, ...] = ()
    groups_measured: tuple[GroupMeasured, ...] = ()
    reference: str = ""
    cache: CachePart = CachePart()
    timings_s: Mapping[str, float] = {}
    notes: tuple[str, ...] = ()
    plan_svg: str | None = None

    @staticmethod
    def from_json(source: str | Path | Mapping[str, Any]) -> Run:
        """A run from its document: a dictionary, a ``run.json``, or the folder that holds one.

        Raises InputError when there is none, when it is broken, or when a newer workbench wrote it.
        """
        if isinstance(source, Mapping):
            return _validated(source, "run document")
        path = Path(source)
        path = path / FILE_NAME if path.is_dir() else path
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path}: no such run; give a run folder or its {FILE_NAME}") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); give a run folder") from error
        except ValueError as error:
            raise InputError(f"{path}: is not JSON ({error}); the file is damaged, repeat the run") from error
        return _validated(document, str(path))

    def to_json(self) -> dict[str, Any]:
        """The document as plain Python values."""
        return self.model_dump(mode="json", by_alias=True)

    def save(self, folder: str | Path) -> Path:
        """Writes ``run.json`` into a folder, whole or not at all; returns its path. Raises StoreError."""
        from .write import write_file

        return write_file(Path(folder) / FILE_NAME, self._text())

    def report(self, folder: str | Path) -> Path:
        """Writes ``run.json``, the plots and ``report.html`` into a folder; returns the page. Raises StoreError."""
        from .write import write_run

        return write_run(self, Path(folder))

    def summary(self) -> str:
        """One sentence: how fast ``planned`` is, what fusion bought, and whether the results are right."""
        from .summary import sentence

        return sentence(self)

    @property
    def id(self) -> str:
        """Identifies a run in the store: model, time, and a digest of everything in it."""
        digest = hashlib.sha256(self._text().encode()).hexdigest()[:8]
        return f"{self.model.name}-{self.created}-{digest}"

    def variant(self, name: str) -> VariantPart | None:
        """The variant of that name, or None."""
        return next((variant for variant in self.variants if variant.name == name), None)

    def latency_plot(self) -> Figure:
        """Latency of every correct variant with its 95 % interval."""
        from .plots import latency_plot

        return latency_plot(self)

    def roofline_plot(self) -> Figure:
        """The kernels of the tuned variants under the machine's two roofs."""
        from .plots import roofline_plot

        return roofline_plot(self)

    def search_plot(self) -> Figure:
        """Best time so far, a line a task, by trial and by second."""
        from .plots import search_plot

        return search_plot(self)

    def groups_plot(self) -> Figure:
        """Where each variant's time goes, a segment a kernel."""
        from .plots import groups_plot

        return groups_plot(self)

    def _text(self) -> str:
        return json.dumps(self.to_json(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"

    def __repr__(self) -> str:
        return f"<Run {self.summary()}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from .html import run_fragment

        return run_fragment(self)


def _validated(document: Any, where: str) -> Run:
    """Checks the schema first: what a newer workbench wrote would else look merely broken."""
    if not isinstance(document, Mapping) or "schema" not in document:
        raise InputError(f"{where}: is not a run document (it has no 'schema'); give a {FILE_NAME}")
    schema = document["schema"]
    if not isinstance(schema, int) or schema < 1:
        raise InputError(f"{where}: schema {schema!r} is unknown, this workbench reads {SCHEMA}; repeat the run")
    if schema > SCHEMA:
        raise InputError(
            f"{where}: schema {schema} was written by a newer workbench, this one reads {SCHEMA}; upgrade the workbench"
        )
    try:
        return Run.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise InputError(f"{where}: field '{place}' is broken ({first['msg']}); repeat the run") from error


def as_run(source: Run | str | Path | Mapping[str, Any]) -> Run:
    """A run as it is, or read from a folder, a file or a document. Raises InputError."""
    return source if isinstance(source, Run) else Run.from_json(source)
