"""A small graph as text, with the type of every result written out: what rules' examples and tests are made of.

::

    x: float32[8, 16]
    W: float32[16, 4] = const
    m: float32[8, 4] = matmul(x, W)
    h: float32[8, 4] = multiply(m, 0.5)
    y: float32[8, 4] = nn.softmax(h){axis=-1}
    s: (a: float32[8, 2], b: float32[8, 2]) = split(y){indices_or_sections=2, axis=1}
    return a, b

A line without ``=`` is an input. A number among the operands is a constant without dimensions, of the dtype of the
first tensor operand; ``c: float32 = 0.5`` names one. ``const`` stands for numbers from 0.5 to 1.5: their values are
not part of the text. An operator with a tuple result names its items.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from types import MappingProxyType

import ml_dtypes  # noqa: F401  gives NumPy bfloat16 and 8-bit floats
import numpy as np

from ..errors import PlanError
from ._classify import kind_of
from ._cost import cost_of
from .graph import Graph, Node, Value

_TYPED = re.compile(r"\s*([\w.]+)\s*:\s*([a-z]\w*)\s*(?:\[([\d\s,]*)\])?\s*")
_TUPLE = re.compile(r"\s*([\w.]+)\s*:\s*\((.*)\)\s*")
_CALL = re.compile(r"\s*([\w.:]+)\s*\(([^(){}]*)\)\s*(?:\{(.*)\})?\s*")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.IGNORECASE)


def from_text(text: str, name: str = "graph") -> Graph:
    """The graph that a text describes (see the module).

    Raises PlanError, with the line, for what cannot be read, an unknown operand and a name that is given twice.

    >>> graph = from_text('''
    ... x: float32[8, 16]
    ... y: float32[8, 16] = nn.relu(x)
    ... return y''')
    >>> graph.nodes[0].kind, graph.outputs
    ('elementwise', ('y',))
    """
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.partition("#")[0].strip()
        if stripped:
            reader.line(number, stripped)
    return reader.graph(hashlib.sha256(text.encode()).hexdigest())


def to_text(graph: Graph) -> str:
    """The text of a graph; :func:`from_text` reads it back, up to the values of constants that are tensors.

    Attributes that are no plain values (a user's tensor program) and those that are None are left out.
    """
    lines = [typed(graph.values[name]) for name in graph.inputs]
    read = dict.fromkeys(name for node in graph.nodes for name in node.inputs)
    constants = [graph.values[name] for name in (*read, *graph.outputs) if graph.values[name].is_constant]
    inline = {value.name for value in constants if value.shape == () and not graph.is_output(value.name)}
    numbered = {name for name in inline if _plain_number(graph, name)}
    for value in dict.fromkeys(constants):
        if value.name not in numbered:
            lines.append(f"{typed(value)} = {_literal(value) if value.shape == () else 'const'}")
    lines += [_node_line(graph, node, numbered) for node in graph.nodes]
    return "\n".join([*lines, f"return {', '.join(graph.outputs)}"]) + "\n"


def node_text(graph: Graph, node: Node) -> str:
    """One operator as its line of :func:`to_text`, every scalar constant written as a number."""
    scalars = {name for name in node.inputs if graph.values[name].is_constant and graph.values[name].shape == ()}
    return _node_line(graph, node, scalars)


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.outputs: tuple[str, ...] | None = None
        self.where = ""

    def line(self, number: int, text: str) -> None:
        self.where = f"{self.name}, line {number} '{text}'"
        if self.outputs is not None:
            raise self._error("nothing may follow return")
        if text.split()[0] == "return":
            self.outputs = tuple(self._known(part.strip()) for part in text.removeprefix("return").split(","))
            return
        left, equals, right = _at_equals(text)
        if not equals:
            name, shape, dtype = self._type(left)
            self._add(Value(name, shape, dtype))
            self.inputs.append(name)
        elif right.strip() == "const" or _NUMBER.fullmatch(right.strip()):
            self._constant(left, right.strip())
        else:
            self._operator(left, right)

    def graph(self, fingerprint: str) -> Graph:
        if self.outputs is None:
            raise PlanError(f"{self.name}: the text ends without 'return VALUE, ...'")
        values = MappingProxyType(self.values)
        return Graph(self.name, tuple(self.nodes), values, tuple(self.inputs), self.outputs, fingerprint)

    def _constant(self, left: str, right: str) -> None:
        name, shape, dtype = self._type(left)
        if right != "const":
            data = np.full(shape, _cast(right, dtype))
        else:
            size = int(np.prod(shape))
            data = np.linspace(0.5, 1.5, size, dtype=np.float32).astype(dtype).reshape(shape)
        data.flags.writeable = False
        self._add(Value(name, shape, dtype, data=data))

    def _operator(self, left: str, right: str) -> None:
        call = _CALL.fullmatch(right)
        if call is None:
            raise self._error("expected operator(operands){attribute=value, ...}, const or a number")
        op, attrs = call[1], self._attributes(call[3])
        operands = [part.strip() for part in call[2].split(",") if part.strip()]
        inputs = self._operands(operands)
        node_id, outputs = self._results(left)
        if _TUPLE.fullmatch(left):
            attrs.setdefault("tuple_items", tuple(range(len(outputs))))
        for value in outputs:
            self._add(value)
        read = [self.values[name] for name in inputs]
        try:
            flops, space = cost_of(op, read, outputs, attrs)
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise self._error(f"operands or attributes do not suit {op} ({type(error).__name__}: {error})") from error
        names = tuple(value.name for value in outputs)
        kind = kind_of(op, read, outputs)
        bindings = tuple(dict.fromkeys((node_id, *names)))
        self.nodes.append(Node(node_id, op, kind, inputs, names, MappingProxyType(attrs), bindings, flops, space))

    def _operands(self, operands: list[str]) -> tuple[str, ...]:
        tensors = [self._known(name) for name in operands if not _NUMBER.fullmatch(name)]
        dtype = self.values[tensors[0]].dtype if tensors else "float32"
        return tuple(self._number(name, dtype) if _NUMBER.fullmatch(name) else name for name in operands)

    def _number(self, text: str, dtype: str) -> str:
        name = f"const_{len(self.values)}"
        data = np.asarray(_cast(text, dtype))
        data.flags.writeable = False
        self._add(Value(name, (), dtype, data=data))
        return name

    def _results(self, left: str) -> tuple[str, list[Value]]:
        items = _TUPLE.fullmatch(left)
        if items is None:
            name, shape, dtype = self._type(left)
            return name, [Value(name, shape, dtype, name)]
        typed = re.split(r",(?![^\[]*\])", items[2])
        return items[1], [Value(*self._type(part), items[1]) for part in typed]

    def _type(self, text: str) -> tuple[str, tuple[int, ...], str]:
        found = _TYPED.fullmatch(text)
        if found is None:
            raise self._error(f"cannot read '{text.strip()}'; expected name: dtype[extents], such as x: float32[8, 16]")
        shape = tuple(int(part) for part in (found[3] or "").split(",") if part.strip())
        return found[1], shape, self._dtype(found[2])

    def _dtype(self, dtype: str) -> str:
        try:
            known = np.dtype(dtype).kind in "fiubV" and dtype not in ("void", "record")
        except TypeError:
            known = False
        if not known:
            raise self._error(f"dtype '{dtype}' is not known; give one such as float32")
        return dtype

    def _attributes(self, text: str | None) -> dict[str, object]:
        try:
            call = ast.parse(f"f({text or ''})", mode="eval").body
            keywords = call.keywords if isinstance(call, ast.Call) and not call.args else None
            pairs = [(keyword.arg, ast.literal_eval(keyword.value)) for keyword in keywords or ()]
        except (SyntaxError, ValueError):
            keywords, pairs = None, []
        if keywords is None or any(name is None for name, _ in pairs):
            raise self._error(f"cannot read the attributes '{text}'; expected name=value, ...")
        return {str(name): value for name, value in pairs}

    def _known(self, name: str) -> str:
        if name not in self.values:
            raise self._error(f"'{name}' is not defined above; defined are {', '.join(self.values) or 'no values'}")
        return name

    def _add(self, value: Value) -> None:
        if value.name in self.values:
            raise self._error(f"'{value.name}' is defined twice; rename one")
        self.values[value.name] = value

    def _error(self, message: str) -> PlanError:
        return PlanError(f"{self.where}: {message}")


def _cast(number: str, dtype: str) -> np.generic:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.float64(number).astype(dtype)


def _at_equals(text: str) -> tuple[str, str, str]:
    """Split at the ``=`` between result and operator; those of attributes come after a brace."""
    head, brace, attributes = text.partition("{")
    left, equals, right = head.partition("=")
    return left, equals, right + brace + attributes


def typed(value: Value) -> str:
    """``x: float32[8, 16]``."""
    extents = f"[{', '.join(map(str, value.shape))}]" if value.shape else ""
    return f"{value.name}: {value.dtype}{extents}"


def _literal(value: Value) -> str:
    """The shortest number that gives the constant back in its own dtype."""
    data = np.asarray(value.data).reshape(())[()]
    return str(int(data)) if value.dtype.startswith(("int", "uint", "bool")) else str(data)


def _plain_number(graph: Graph, name: str) -> bool:
    """Whether a scalar constant has the dtype that a bare number would get with each of its users, and is finite."""
    value = graph.values[name]
    tensors = [[i for i in user.inputs if graph.values[i].data is None] for user in graph.users(name)]
    same = all(names and graph.values[names[0]].dtype == value.dtype for names in tensors)
    return same and len(tensors) > 0 and _NUMBER.fullmatch(_literal(value)) is not None


def _node_line(graph: Graph, node: Node, numbers: set[str]) -> str:
    results = [typed(graph.values[out]) for out in node.outputs]
    made = f"{node.id}: ({', '.join(results)})" if "tuple_items" in node.attrs else results[0]
    read = ", ".join(_literal(graph.values[name]) if name in numbers else name for name in node.inputs)
    attrs = ", ".join(f"{name}={value!r}" for name, value in _plain_attributes(node))
    return f"{made} = {node.op}({read})" + (f"{{{attrs}}}" if attrs else "")


def _plain_attributes(node: Node) -> Iterator[tuple[str, object]]:
    for name, value in node.attrs.items():
        default = name == "tuple_items" and value == tuple(range(len(node.outputs)))
        if value is not None and not default and _is_plain(value):
            yield name, value


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
