"""The last step of every importer: a module with static shapes -> :class:`Model`."""

from __future__ import annotations

from workbench.tvm_seam import tvm

from ._relax import flatten, tensor_spec
from .canonical import canonicalise
from .fingerprint import fingerprint
from .model import ImportCheck, Model, SourceRun
from .weights import named_constants, require_finite


def finish(
    module: tvm.IRModule,
    *,
    name: str,
    source: str,
    framework: str = "none",
    source_run: SourceRun | None = None,
    without_framework: str = "there is no source framework to compare with",
) -> Model:
    """Canonicalises, checks the weights and describes the result.

    ``without_framework`` says why ``source_run`` is None.
    """
    module = canonicalise(module, source)
    require_finite(named_constants(module), source)
    main = module["main"]
    results = flatten(main.body.body)
    return Model(
        name=name,
        source=source,
        module=module,
        inputs=tuple(tensor_spec(p.name, p.ty) for p in main.params),
        outputs=tuple(tensor_spec(getattr(r, "name", f"output_{i}"), r.ty) for i, r in enumerate(results)),
        fingerprint=fingerprint(module),
        check=ImportCheck("none", None, None, without_framework)
        if source_run is None
        else ImportCheck(framework, None, None, "not checked yet"),
        framework=framework,
        source_run=source_run,
    )
