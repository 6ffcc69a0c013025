"""Errors, named by what to do about them.

Each class is a disposition: whoever catches one knows the next move from its type alone and never reads its
words. The words are for people: one sentence on what is wrong and where, and a hint on what to do.
"""

import enum


class ExitCode(enum.IntEnum):
    """The published table of exit codes."""

    FOUND = 0
    INTERNAL = 1
    USAGE = 2
    INCONCLUSIVE = 3
    NOT_REPRODUCED = 4
    ENVIRONMENT_CHANGED = 5
    SEVERAL_CHANGES = 6
    PROOF_FAILED = 7
    BUDGET_OVER = 8
    NO_BISECTION = 10
    LOCKED = 11
    INTERRUPTED = 130


class BisectperfError(Exception):
    """A failure that was foreseen: `message` says what and where, `hint` what to do, `detail` what was seen."""

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail = detail

    def __str__(self) -> str:
        return self.message


class UserError(BisectperfError):
    """The request cannot be carried out as given: stop and say what to change."""

    exit_code = ExitCode.USAGE


class HostUnavailable(BisectperfError):
    """The host did not answer, so the outcome is unknown: back off, reconnect, ask the job folder; never skip."""

    exit_code = ExitCode.INCONCLUSIVE


class HostUnfit(BisectperfError):
    """The host answered but is in no state to measure: void the launch and wait."""

    exit_code = ExitCode.INCONCLUSIVE


class HostMoved(BisectperfError):
    """The host is not what it was when the ends were measured: stop, its owner decides which of the two counts."""

    exit_code = ExitCode.ENVIRONMENT_CHANGED


class LaunchFlaky(BisectperfError):
    """This launch failed for a reason that need not recur: again under a new id, a bounded number of times."""

    exit_code = ExitCode.INCONCLUSIVE


class CommitUntestable(BisectperfError):
    """This commit cannot be measured at all (conflict, build failure): skip it, keeping the reason."""

    exit_code = ExitCode.INCONCLUSIVE


class ProofFailed(BisectperfError):
    """What is on the host is not what was asked for: repair once by a fresh checkout, else stop."""

    exit_code = ExitCode.PROOF_FAILED


class Locked(BisectperfError):
    """Another bisection holds the repository or the host: say whose turn it is."""

    exit_code = ExitCode.LOCKED


class NoBisection(BisectperfError):
    """There is no bisection here to go on with."""

    exit_code = ExitCode.NO_BISECTION


class Interrupted(Exception):
    """The user asked for an end: no failure, and nothing is lost."""
