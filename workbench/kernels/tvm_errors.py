"""What TVM raises, and how to say it in one line."""

from __future__ import annotations

from ..tvm_seam import tvm

# TVM has no error class of its own for most failures: its C++ checks arrive as these. Its own Python (legalisation)
# asserts, and names functions that it does not have.
TVM_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    tvm.error.InternalError,
)


# What a schedule primitive raises when it refuses.
SCHEDULE_ERRORS = (tvm.s_tir.ScheduleError, ValueError, tvm.error.InternalError)


def one_line(error: BaseException, limit: int = 300) -> str:
    """The reason in an error's text, without the IR listing and the stack that TVM wraps it in."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("Error message:")]
    outer = [line.rstrip() for line in str(error).splitlines() if line.strip() and not line[0].isspace()]
    text = (reasons or outer or lines or [type(error).__name__])[-1].removeprefix("Error message:").strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."
