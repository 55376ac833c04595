"""Errors that a person or a program can cause: a stable code, one sentence, a hint and cures.

Sentence and hint contain no shell syntax. The hint is advice that no operation can carry out; a cure is an
operation. A sentence names the caller's fields in backticks, and `fields` lists them. Each shell spells them
its own way.

A refusal that is part of normal work (a lane is held, a lease was lost) is a *value*, see `Refusal`; it
becomes an exception only where a caller asks for one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from interlock.core.record import Record

if TYPE_CHECKING:
    from interlock.core.cures import Cure

#: The text of an error shows at most this many reasons. `reasons` has them all.
_REASONS_TOLD = 20


class Exit(IntEnum):
    """Exit codes of the command line. They mean the same on every command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NO_WORK = 3
    HELD = 4
    LEASE_LOST = 5
    STALE_REVISION = 6


class InterlockError(Exception):
    """Interlock could not do what was asked: one sentence, a hint, and cures, the best one first."""

    code = "error"
    exit_code = Exit.ERROR
    #: A set-up fault of the machine or of one lane; None for a fault of the run.
    setup: Literal["machine", "lane"] | None = None
    #: If there are several reasons, one sentence for each.
    reasons: tuple[str, ...] = ()

    def __init__(
        self, sentence: str, hint: str = "", cures: tuple[Cure, ...] = (), *, fields: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.cures = cures
        self.fields = fields

    def __str__(self) -> str:
        """The text for a Python program, with cures as Python calls."""
        from interlock.core.cures import hint, python_call  # noqa: PLC0415  (where an error is printed)

        advice = hint(self.hint, self.cures, python_call)
        if self.reasons in ((), (self.sentence,)):
            return f"{self.sentence} {advice}".strip()
        told = [f"- {reason}" for reason in self.reasons[:_REASONS_TOLD]]
        if len(self.reasons) > _REASONS_TOLD:
            told.append(f"- and {len(self.reasons) - _REASONS_TOLD:,} more")
        return "\n".join(part for part in (self.sentence, *told, advice) if part)


class InvalidInput(InterlockError):
    """The input breaks a stated rule; nothing was changed."""

    code = "invalid_input"
    exit_code = Exit.USAGE


class TooLarge(InvalidInput):
    """The input is over a stated limit; nothing was changed."""

    code = "too_large"


class _WithReasons(Exception):
    """An error that may have several reasons. Its sentence then gives only their number."""

    def __init__(
        self, sentence: str, hint: str = "", cures: tuple[Cure, ...] = (), *, reasons: tuple[str, ...] = ()
    ) -> None:
        super().__init__(sentence, hint, cures)
        self.reasons = reasons or (sentence,)


class InvalidPlan(_WithReasons, InvalidInput):
    """A plan or an edit has mistakes; nothing was changed. `reasons` has a sentence for each."""

    code = "invalid_plan"


class NotFound(InterlockError):
    """This store has no such item, agent or run."""

    code = "not_found"


class NotTrusted(InterlockError):
    """A repository's file or link asks for something that needs the user's trust."""

    code = "not_trusted"


class UnknownRun(InvalidInput):
    """The text is not a handle; nothing was changed."""

    code = "unknown_run"


class LeaseLost(InterlockError):
    """The run no longer owns its item. Its write was refused."""

    code = "lease_lost"
    exit_code = Exit.LEASE_LOST


class Held(InterlockError):
    """Another run holds the item or lane; nothing was changed."""

    code = "held"
    exit_code = Exit.HELD


class ItemEnded(InterlockError):
    """The item has already ended."""

    code = "item_ended"

    def __init__(
        self, sentence: str, hint: str = "", cures: tuple[Cure, ...] = (), *, reason: str = ""
    ) -> None:
        super().__init__(sentence, hint, cures)
        #: Why it ended, as on the item.
        self.reason = reason


class EditRefused(_WithReasons, InterlockError):
    """The edit breaks a rule of plans, or the item has started; nothing was changed. `reasons` has one
    sentence for each reason."""

    code = "edit_refused"


class StaleRevision(EditRefused):
    """The plan changed after the edit's base revision, where the edit changes it too; or the item changed
    after it was read. Nothing was changed."""

    code = "stale_revision"
    exit_code = Exit.STALE_REVISION


class CycleExpired(EditRefused):
    """The edit missed the deadline of its cycle. Claims have resumed; nothing was changed."""

    code = "edit_cycle_expired"
    exit_code = Exit.LEASE_LOST


class PlanEnded(EditRefused):
    """The plan has ended and can no longer be edited."""

    code = "plan_ended"


class IllegalTransition(InterlockError):
    """The transition tables do not allow this state change. It is a bug in Interlock, never a user's
    mistake."""

    code = "illegal_transition"


class StoreUnavailable(InterlockError):
    """The database cannot be reached or written right now."""

    code = "store_unavailable"


class StoreRefused(StoreUnavailable):
    """The database denies access: role, password or permission. A retry does not help."""

    code = "store_refused"


class StoreBusy(InterlockError):
    """Another writer held the database longer than the busy timeout."""

    code = "store_busy"


class StoreReplaced(InterlockError):
    """The database was removed or replaced while this process had it open. The leases of this process are
    lost."""

    code = "store_replaced"


class StoreSealed(InterlockError):
    """The store was copied elsewhere and is now read-only."""

    code = "store_sealed"

    def __init__(self, place: str) -> None:
        super().__init__(
            f"This store is sealed for its copy to {place}, and takes no more writes.",
            "Set INTERLOCK_URL to the new store. If the copy was interrupted, run it again.",
        )


class Repeated(InterlockError):
    """Another call carried out the same request meanwhile. This call changed nothing."""

    code = "repeated"


class NotAllowed(InterlockError):
    """The token's scope does not allow this."""

    code = "not_allowed"


class NoToken(InterlockError):
    """The server needs a valid token, and this one is missing, unknown, revoked or expired."""

    code = "no_token"


class TooManyRequests(InterlockError):
    """The rate limit of the server was exceeded."""

    code = "too_many_requests"


class SchemaMismatch(InterlockError):
    """The database schema is of an older or newer Interlock, or was changed by hand."""

    code = "schema_mismatch"


class Closed(InterlockError):
    """The program has closed this connection to the store; nothing was changed."""

    code = "closed"


class CommandUnusable(InterlockError):
    """The command to run under a lease was not found or is not executable."""

    code = "command_unusable"


class GitFailed(InterlockError):
    """A git command failed."""

    code = "git_failed"


class GitMissing(GitFailed):
    """Git is not installed on this machine."""

    code = "git_missing"
    setup = "machine"


class NoRepository(GitFailed):
    """The directory is not in a git repository."""

    code = "no_repository"


class NoRemote(GitFailed):
    """The repository has no such remote."""

    code = "no_remote"
    setup = "machine"


class RemoteUnavailable(GitFailed):
    """The remote cannot be reached or read right now."""

    code = "remote_unavailable"
    setup = "machine"


class NoGitHubToken(InvalidInput):
    """No GitHub token was found."""

    code = "no_github_token"


class GitHubUnavailable(InterlockError):
    """GitHub is unreachable or failing. `uncertain`: a write may have been carried out."""

    code = "github_unavailable"

    def __init__(self, sentence: str, hint: str = "", *, uncertain: bool = False) -> None:
        super().__init__(sentence, hint)
        self.uncertain = uncertain


class GitHubRefused(InterlockError):
    """GitHub refused the request; a retry does not help. `status` is the HTTP status."""

    code = "github_refused"

    def __init__(self, sentence: str, hint: str = "", *, status: int) -> None:
        super().__init__(sentence, hint)
        self.status = status


class GitHubLimited(InterlockError):
    """GitHub's rate limit: no requests for `wait_s`. `why` is `allowance`, `reserve` or `secondary`."""

    code = "github_limited"

    def __init__(self, sentence: str, hint: str = "", *, wait_s: float, why: str) -> None:
        super().__init__(sentence, hint)
        self.wait_s, self.why = wait_s, why


class UnreadableState(GitFailed):
    """An Interlock ref holds data that Interlock did not write. It counts as held, never as free."""

    code = "unreadable_state"
    exit_code = Exit.HELD
    setup = "lane"


class TwoStores(GitFailed):
    """The lane's fence belongs to another store, which may still be in use."""

    code = "two_stores"
    exit_code = Exit.HELD
    setup = "lane"


class FenceAhead(LeaseLost):
    """The lane's fence was ahead of the store, which had been restored. Run numbers now continue above the
    fence."""

    code = "fence_ahead"
    setup = "lane"


class PushFailed(GitFailed):
    """The push failed for a reason other than the lease; the branch is unchanged."""

    code = "push_failed"


class RebaseConflict(PushFailed):
    """The rebase conflicts: other commits change the same lines. The working tree is unchanged."""

    code = "rebase_conflict"


def refusal_error(code: str, sentence: str, hint: str, cures: tuple[Cure, ...]) -> InterlockError:
    """The exception of a refusal: an edit that came too late has its own, all else is a lost lease."""
    kind = CycleExpired if code == CycleExpired.code else LeaseLost
    return kind(sentence, hint, cures)


class Refusal(Record):
    """A refused write of a run, and why."""

    code: str
    sentence: str
    hint: str
    cures: tuple[Cure, ...] = ()

    def error(self) -> InterlockError:
        """The refusal as an exception."""
        return refusal_error(self.code, self.sentence, self.hint, self.cures)
