"""The tensor program interpreter and the operator table against each other, through TVM's own legalisation."""

from __future__ import annotations

import numpy as np
import pytest
from reference_cases import CASES, Case, graph_of, module_of

from workbench.reference import evaluate
from workbench.tvm_seam import relax

LEGALIZABLE = [case for case in CASES if case.legalizes]


@pytest.mark.parametrize("case", LEGALIZABLE, ids=lambda case: case.name)
def test_legalized_operator_equals_the_table(case: Case) -> None:
    arrays = case.arrays(case.legal_dtype)
    module = module_of(case.build, arrays)
    expected = evaluate(graph_of(module), arrays)
    legalized = relax.transform.LegalizeOps()(module)
    graph = graph_of(legalized)
    assert any(node.op.startswith("call_tir:") for node in graph.nodes)
    for got, want in zip(evaluate(graph, arrays), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
