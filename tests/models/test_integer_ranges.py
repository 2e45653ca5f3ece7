"""Example inputs fit the model: indices address what is there, divisors are not zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import workbench as wb
from workbench.errors import InputError
from workbench.graph import from_model
from workbench.reference import evaluate

SEEDS = range(6)


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(3, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.table(tokens.reshape(-1)).relu()


class Rows(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.gather(x, 0, torch.stack([index, index], 1)) + x[index][:, :2]


class Quotients(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a // b, a % b


class Shifted(nn.Module):
    """The restriction is not seen through the subtraction: some example input is zero after it."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a // (b - 3)


class FromTheEnd(nn.Module):
    """As ONNX's Gather comes in: negative indices count from the end."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.index_select(x, 0, torch.where(index < 0, index + 5, index))


NUMBERS = torch.arange(1, 41).reshape(4, 10)
MODELS = {
    "embedding": (Embedding(), (torch.zeros(5, 2, dtype=torch.int64),)),
    "rows": (Rows(), (torch.zeros(5, 6), torch.zeros(3, dtype=torch.int64))),
    "from the end": (FromTheEnd(), (torch.zeros(5, 6), torch.zeros(3, dtype=torch.int64))),
    "quotients": (Quotients(), (NUMBERS, NUMBERS)),
}


@pytest.mark.parametrize("name", MODELS)
def test_example_inputs_fit_the_model(name: str) -> None:
    module, args = MODELS[name]
    model = wb.load(module.eval(), args=args)
    assert model.check.ok, model.check
    executable = wb.compile(wb.plan(model))
    for seed in SEEDS:
        inputs = model.example_inputs(seed)
        expected = module(*map(torch.from_numpy, inputs))
        found = executable(*inputs)
        for one, other in zip(
            found if isinstance(found, tuple | list) else [found],
            expected if isinstance(expected, tuple) else [expected],
            strict=True,
        ):
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-6)


def test_indices_use_the_whole_axis() -> None:
    module, args = MODELS["embedding"]
    drawn = [wb.load(module.eval(), args=args).example_inputs(seed)[0] for seed in SEEDS]
    assert set(np.unique(drawn)) == {0, 1, 2}


def test_a_division_by_zero_is_refused_before_a_kernel_runs() -> None:
    model = wb.load(Shifted(), args=(NUMBERS, NUMBERS))
    inputs = [np.ones((4, 10), "int64"), np.full((4, 10), 3, "int64")]
    with pytest.raises(InputError, match=r"floor_divide.*by zero"):
        evaluate(from_model(model), inputs)
    with pytest.raises(InputError, match="by zero"):
        wb.run(model, trials_per_task=1, measure_seconds=0.3, quiet=True)


def test_an_index_outside_is_refused() -> None:
    module, args = MODELS["embedding"]
    graph = from_model(wb.load(module.eval(), args=args))
    with pytest.raises(InputError, match="reads outside"):
        evaluate(graph, [np.full((5, 2), 3, "int64")])
