"""Every failure on one screen, sorted by who has to react.

    GlassloopError
    ├── ToolError              the model: it reads the text as the call's result and may try again
    ├── SettingsError          the operator: a variable, what is wrong with it, an example
    ├── StoreError             the operator: a database that cannot be used, and what to do
    ├── Refused                the person: a request that the session cannot take (stale, unknown, not theirs)
    │   └── NotTaken           a file that is not taken in: `code` says why
    └── TurnStop               ends a turn; becomes its one TurnEnded
        ├── ApprovalNeeded     awaiting_approval
        ├── StepLimitReached   step_limit
        ├── BudgetSpent        budget
        ├── LoopDetected       loop
        ├── EmptyAnswer        empty_answer
        ├── OutputTruncated    output_truncated
        ├── ContentFiltered    content_filtered
        ├── NotKept            error: the disk is full, or the database is gone; to a request it is a Refused, too
        └── ModelError         error: the server said no, said nonsense, or said nothing
            └── ContextOverflow    the request is too long for the model: `think` shows it less and asks again

Anything else that is raised is a bug of ours: it ends the turn with its traceback in the operator's log.
"""

from __future__ import annotations

from agent.events import Budget, Fault, StopReason

FAULT_CODES = (
    "wrong_key",
    "forbidden",
    "unknown_model",
    "quota_exhausted",
    "rate_limited",
    "overloaded",
    "context_overflow",
    "bad_request",
    "provider_error",
    "malformed_response",
    "incomplete_stream",
    "connection_lost",
    "unreachable",
    "timeout",
    "tls",
    "disk_full",
    "storage_failed",
    "bug",
)
"""What `Fault.code` may be. `ui/texts` has words for each in every language, and a test compares."""


class GlassloopError(Exception):
    """The root of what we raise on purpose."""


class ToolError(GlassloopError):
    """The tool cannot do what was asked; the text is written for the model."""


class SettingsError(GlassloopError):
    """A setting is wrong; the text names the variable, what is wrong and an example."""


class StoreError(GlassloopError):
    """The database cannot be used; the text says why, and that nothing in it was changed."""


class Refused(GlassloopError):
    """The session does not take this request; the text says why."""


class NotTaken(Refused):
    """A file that a person handed in cannot be taken. The page has words for each code."""

    def __init__(self, code: str) -> None:
        """`code`: too_large, picture_too_large, too_many, full, disk_full, gone, failed."""
        super().__init__(f"the file was not taken ({code})")
        self.code = code


class TurnStop(GlassloopError):
    """A turn is over for a reason other than an answer."""

    reason: StopReason = "error"
    fault: Fault | None = None
    budget: Budget | None = None


class ApprovalNeeded(TurnStop):
    reason: StopReason = "awaiting_approval"


class StepLimitReached(TurnStop):
    reason: StopReason = "step_limit"


class BudgetSpent(TurnStop):
    reason: StopReason = "budget"

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"{budget.spent:g} of {budget.limit:g} {budget.kind}")
        self.budget = budget


class LoopDetected(TurnStop):
    reason: StopReason = "loop"


class EmptyAnswer(TurnStop):
    reason: StopReason = "empty_answer"


class OutputTruncated(TurnStop):
    reason: StopReason = "output_truncated"


class ContentFiltered(TurnStop):
    reason: StopReason = "content_filtered"


class NotKept(TurnStop, Refused):
    """An event could not be written, so it did not happen."""

    reason: StopReason = "error"

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.fault = Fault(code, message, detail)


class ModelError(TurnStop):
    """A model call failed for good: retries, where they make sense, are already behind it."""

    reason: StopReason = "error"

    def __init__(self, code: str, message: str, detail: str = "") -> None:
        if code not in FAULT_CODES:
            raise ValueError(f"unknown fault code {code!r}")
        super().__init__(message)
        self.fault = Fault(code, message, detail)


class ContextOverflow(ModelError):
    """The request is longer than the model can read."""

    def __init__(self, message: str, detail: str = "", times_too_long: float = 2.0, window: int | None = None) -> None:
        super().__init__("context_overflow", message, detail)
        self.times_too_long = times_too_long
        """By the server's numbers; 2 where it gave none."""
        self.window = window
        """How many tokens fit, by the same numbers."""
