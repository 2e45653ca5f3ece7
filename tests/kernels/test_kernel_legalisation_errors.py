"""What TVM's own legalisation stumbles over is one line that names the node."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import workbench as wb
from workbench.errors import KernelError


class Shuffle(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pixel_shuffle(x, 2)


def test_an_operator_that_tvm_cannot_legalise_is_named() -> None:
    model = wb.load(Shuffle(), args=(torch.zeros(1, 8, 4, 4),))
    with pytest.raises(KernelError, match="pixel_shuffle") as caught:
        wb.compile(wb.plan(model))
    assert "\n" not in str(caught.value)
