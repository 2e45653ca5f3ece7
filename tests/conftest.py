"""Fixtures that every stage's tests share."""

from __future__ import annotations

import os

# Two cores are what the slowest machine has; BLAS and TVM must not fight over them.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")
