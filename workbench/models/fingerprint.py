"""The identity of a model: structure and weights, not names."""

from __future__ import annotations

import hashlib

from workbench.tvm_seam import GenericConst, relax, tvm, tvm_ffi

from ._relax import bindings_of, flatten, op_name


def fingerprint(module: tvm.IRModule) -> str:
    """sha256 (hexadecimal) over inputs, operators with attributes, weights' bytes and tensor programs of a model.

    Variables count by position, so that a renamed model keeps its fingerprint; the same source gives the same one in
    every process.
    """
    main = module["main"]
    digest = hashlib.sha256()
    numbers: dict[relax.Var, int] = {}
    for param in main.params:
        numbers[param] = len(numbers)
        digest.update(f"input {param.ty}\n".encode())
    for binding in bindings_of(main):
        digest.update(_expr(binding.value, numbers, module).encode())
        digest.update(f" : {binding.var.ty}\n".encode())
        numbers[binding.var] = len(numbers)
    for output in flatten(main.body.body):
        digest.update(f"output {_expr(output, numbers, module)}\n".encode())
    return digest.hexdigest()


def _expr(expr: object, numbers: dict[relax.Var, int], module: tvm.IRModule) -> str:
    if isinstance(expr, relax.Var):
        return f"%{numbers[expr]}"
    if isinstance(expr, GenericConst):
        array = expr.value.numpy()
        return f"const {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    if isinstance(expr, relax.Tuple):
        return f"({', '.join(_expr(field, numbers, module) for field in expr.fields)})"
    if isinstance(expr, relax.TupleGetItem):
        return f"{_expr(expr.tuple_value, numbers, module)}[{expr.index}]"
    if isinstance(expr, tvm.ir.GlobalVar):
        # The hash follows structure and ignores variable names; TVM computes it the same way in every process.
        return f"tir {tvm_ffi.structural_hash(module[expr]):x}"
    if isinstance(expr, relax.Call):
        args = ", ".join(_expr(arg, numbers, module) for arg in expr.args)
        return f"{op_name(expr)}({args}) {expr.attrs}"
    return str(expr)
