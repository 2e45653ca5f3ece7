"""Takes inference-form batch normalisation apart into elementwise operators, as TVM's own fusion does.

::

    batch_norm(x)  ->  (x - mean) / deviation * gamma + beta

The group's weights stay as they are; see ``fold_batchnorm`` for the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import KernelError
from ...tvm_seam import relax
from ..batchnorm import decompose, is_foldable
from ..program import Operation


def decompose_batchnorm(operations: Sequence[Operation], escaping: frozenset[Any]) -> list[Operation]:
    """The operations with every ``nn.batch_norm`` of float32 constants taken apart.

    Raises KernelError when the group has none.
    """
    result: list[Operation] = []
    for operation in operations:
        result += _parts(operation) if is_foldable(operation) else [operation]
    if len(result) == len(operations):
        raise KernelError("decompose_batchnorm: the group has no nn.batch_norm of constants; drop the rewrite")
    return result


def _parts(norm: Operation) -> list[Operation]:
    parts: list[Operation] = []
    builder = relax.BlockBuilder()

    def bind(value: Any) -> Any:
        value = builder.normalize(value)
        variable = relax.DataflowVar(f"{norm.id}_part{len(parts)}", value.ty)
        parts.append(Operation(f"{norm.id}_part{len(parts)}", value, False, {0: variable}))
        return variable

    decompose(norm.call, bind)
    last = parts.pop()
    return [*parts, Operation(norm.id, last.call, False, {0: norm.outputs[0]})]
