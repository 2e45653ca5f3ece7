"""Runners: check and time built candidates on a device."""

from ._base import Runner, RunResult
from .fake import FakeRunner, latency_by_hash

__all__ = ["FakeRunner", "RunResult", "Runner", "latency_by_hash"]
