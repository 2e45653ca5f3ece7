"""Every way in which a boundary can end, by name: what ``--explain``, plans and reports say before the details."""

from __future__ import annotations

# Legality: no planner may take such a set.
UNKNOWN = "unknown node"
EMPTY = "empty"
CYCLE = "would form a cycle"
DTYPE = "dtype not allowed"
RANK = "rank"
OPAQUE = "opaque operator"
ARGUMENTS = "argument limit"
OUTPUTS = "output limit"
DISCONNECTED = "disconnected"
ESCAPES = "inner value escapes"
OVERLAP = "overlap"
UNCOVERED = "not covered"
REWRITE = "rewrite does not apply"
# What a person asked for.
FORBIDDEN = "forbidden edge"
PINNED = "pinned"
RULE_OFF = "rule is off"
SIZE_LIMIT = "group size limit"
# What a rule says of a set that it looked at and does not propose.
OPERATOR = "operator does not match"
ATTRIBUTE = "attribute does not match"
SHAPE = "shape does not match"
NOT_CONSTANT = "operand is no constant"
# What the evidence says.
FUSED = "fused"
INSIDE = "part of a larger group"
SLOWER = "predicted slower"
RECOMPUTE = "recompute factor"
TIE = "tie"
OUTBID = "another grouping is predicted faster"
EXCLUSIVE = "schedule serves its pattern alone"
TWO_CONTRACTIONS = "two contractions"
VIEW = "a view costs nothing"
NO_RULE = "no rule proposes it"
UNSCHEDULED = "no schedule"
MEASURED_SLOWER = "measured slower"
WHOLE_MODEL = "measured in the whole model"

LEGALITY = (
    UNKNOWN, EMPTY, CYCLE, DTYPE, RANK, OPAQUE, ARGUMENTS, OUTPUTS, DISCONNECTED, ESCAPES, OVERLAP, UNCOVERED,
    FORBIDDEN, REWRITE, SIZE_LIMIT,
)  # fmt: skip
CATEGORIES = (
    *LEGALITY, PINNED, RULE_OFF, OPERATOR, ATTRIBUTE, SHAPE, NOT_CONSTANT, FUSED, INSIDE, SLOWER, RECOMPUTE, TIE,
    OUTBID, EXCLUSIVE, TWO_CONTRACTIONS, VIEW, NO_RULE, UNSCHEDULED, MEASURED_SLOWER, WHOLE_MODEL,
)  # fmt: skip
