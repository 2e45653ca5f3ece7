"""Was the model imported as it was meant? The source framework's outputs against those of the imported graph."""

from __future__ import annotations

import logging

from ..errors import InputError, UnsupportedOperator
from ..graph import from_model
from ..models import ImportCheck, Model
from ..reference import compare_all

log = logging.getLogger(__name__)


def check_import(model: Model, seed: int = 0) -> ImportCheck:
    """Runs the source framework on ``model.example_inputs(seed)`` and judges its outputs by the imported graph's.

    The graph is evaluated by NumPy, in float64 and in the model's own dtypes (see :mod:`workbench.reference.compare`
    for what counts as equal), so that TVM's code generation has no part in it. Returns a check with ``ok=None`` and
    the reason where there is no framework, it cannot run the model, or NumPy lacks an operator.
    """
    if model.source_run is None:
        return model.check
    from ..reference import evaluate  # SciPy, which a model without a source framework need not wait for

    framework = model.framework
    inputs = model.example_inputs(seed)
    try:
        theirs = model.source_run(inputs)
    except Exception as error:  # frameworks raise errors of many kinds; the reason goes into the report
        log.info("%s cannot run %s", framework, model.source, exc_info=True)
        reason = " ".join(str(error).split())[:200]
        return ImportCheck(
            framework, None, None, f"{framework} cannot run the model ({type(error).__name__}: {reason})"
        )
    try:
        graph = from_model(model)
        found = compare_all(theirs, evaluate(graph, inputs, "float64"), evaluate(graph, inputs, "native"))
    except InputError as error:
        if not isinstance(error, UnsupportedOperator):
            return ImportCheck(framework, None, None, f"not compared: {error}")
        return ImportCheck(framework, None, None, f"not compared: NumPy's table has no operator '{error.operator}'")
    return ImportCheck(framework, found.correct, found.max_abs_error, found.message or f"on inputs of seed {seed}")
