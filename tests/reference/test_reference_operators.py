"""The operator table against PyTorch, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference_cases import CASES, Case, graph_of, module_of

from workbench.reference import evaluate

WITH_TORCH = [case for case in CASES if case.torch is not None]


@pytest.mark.parametrize("case", WITH_TORCH, ids=lambda case: case.name)
def test_operator_equals_pytorch(case: Case) -> None:
    arrays = case.arrays()
    outputs = evaluate(graph_of(module_of(case.build, arrays)), arrays)
    wanted = case.torch(*(torch.from_numpy(a.copy()) for a in arrays))
    expected = [t.numpy() for t in wanted] if isinstance(wanted, tuple | list) else [wanted.numpy()]
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
