"""A group's graph as plain JSON and back: what is kept beside its measured times, so that they can be learned from.

Names are canonical (values ``v0``, ``v1``, ..; nodes ``n0``, ``n1``, ..), so equal groups of different models give
equal text. Kinds, operations and loops are not written: they follow from operators, shapes and attributes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import PlanError
from ._classify import kind_of
from ._cost import cost_of
from .graph import Graph, Node, Value

SCHEMA = 1


def to_json(graph: Graph) -> dict[str, Any]:
    """The graph as a JSON document. Of constants only single numbers keep their data."""
    read = [name for node in graph.nodes for name in node.inputs]
    made = [name for node in graph.nodes for name in node.outputs]
    order = dict.fromkeys((*graph.inputs, *read, *made, *graph.outputs))
    names = {name: f"v{place}" for place, name in enumerate(order)}
    return {
        "schema": SCHEMA,
        "values": [_value_to_json(graph.values[name]) for name in names],
        "nodes": [
            {
                "op": node.op,
                "inputs": [names[name] for name in node.inputs],
                "outputs": [names[name] for name in node.outputs],
                "attrs": {name: _plain(value) for name, value in sorted(node.attrs.items()) if _is_plain(value)},
            }
            for node in graph.nodes
        ],
        "inputs": [names[name] for name in graph.inputs],
        "outputs": [names[name] for name in graph.outputs],
    }


def from_json(document: Mapping[str, Any]) -> Graph:
    """The graph of a document of :func:`to_json`; its fingerprint is the document's sha256.

    Constants are zeros of the right shape where the document has no data. Raises PlanError for a document that is
    broken or of a newer schema.
    """
    schema = document.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise PlanError(f"a group's document has schema {schema!r}, and this workbench reads up to {SCHEMA}")
    try:
        return _read(document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PlanError(f"a group's document cannot be read: {type(error).__name__}: {error}") from error


def _read(document: Mapping[str, Any]) -> Graph:
    producers = {name: f"n{i}" for i, node in enumerate(document["nodes"]) for name in node["outputs"]}
    values = {}
    for place, item in enumerate(document["values"]):
        name = f"v{place}"
        values[name] = _value_from_json(name, item, producers.get(name))
    nodes = tuple(_node_from_json(f"n{place}", item, values) for place, item in enumerate(document["nodes"]))
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    if unknown := {*document["inputs"], *document["outputs"]} - values.keys():
        raise ValueError(f"no value is named {', '.join(sorted(unknown))}")
    return Graph(
        name="group",
        nodes=nodes,
        values=MappingProxyType(values),
        inputs=tuple(document["inputs"]),
        outputs=tuple(document["outputs"]),
        fingerprint=hashlib.sha256(text.encode()).hexdigest(),
    )


def _value_to_json(value: Value) -> dict[str, Any]:
    item: dict[str, Any] = {"shape": list(value.shape), "dtype": value.dtype}
    if value.data is not None:
        item["constant"] = _plain(value.data.reshape(()).tolist()) if value.data.size == 1 else True
    return item


def _value_from_json(name: str, item: Mapping[str, Any], producer: str | None) -> Value:
    shape = tuple(int(extent) for extent in item["shape"])
    constant = item.get("constant")
    if constant is None:
        return Value(name, shape, str(item["dtype"]), producer)
    number = 0 if math.prod(shape) != 1 else _restored(constant)
    data = np.broadcast_to(np.asarray(number).astype(_numpy_dtype(item["dtype"])), shape)
    return Value(name, shape, str(item["dtype"]), producer, data)


def _node_from_json(node_id: str, item: Mapping[str, Any], values: Mapping[str, Value]) -> Node:
    attrs = {name: _restored(value) for name, value in item["attrs"].items()}
    read = [values[name] for name in item["inputs"]]
    made = [values[name] for name in item["outputs"]]
    flops, space = cost_of(item["op"], read, made, attrs)
    return Node(
        id=node_id,
        op=item["op"],
        kind=kind_of(item["op"], read, made),
        inputs=tuple(item["inputs"]),
        outputs=tuple(item["outputs"]),
        attrs=MappingProxyType(attrs),
        bindings=tuple(item["outputs"]),
        flops=flops,
        space=space,
    )


def _numpy_dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # bfloat16 and 8-bit floats; seldom needed

        return np.dtype(getattr(ml_dtypes, name))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: these are objects with their name."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(item) for item in value)
    if isinstance(value, dict):
        return float(value["float"])
    return value
