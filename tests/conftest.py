"""Fixtures that every stage's tests share."""

from __future__ import annotations

import os
import signal

# Two cores are what the slowest machine has; BLAS and TVM must not fight over them.
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

# A shell starts what ends in "&" with Ctrl-C ignored, and children inherit that; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
