"""The main job: a model in, a Run out."""

from ._exchange import tasks_of
from ._main import Outcome, main_job
from ._planning import MODES, plan_for
from ._search import Tuned, schedules, stored_schedules, tune_plan
from ._settings import Settings, prepare, with_model, with_peaks
from ._sweep import sweep

__all__ = [
    "MODES",
    "Outcome",
    "Settings",
    "Tuned",
    "main_job",
    "plan_for",
    "prepare",
    "schedules",
    "stored_schedules",
    "sweep",
    "tasks_of",
    "tune_plan",
    "with_model",
    "with_peaks",
]
