"""Errors that a person or a program can cause: a stable code, one sentence, one hint.

A refusal that is part of normal work (a lane is held, a lease was lost) is a *value*, see `Refusal`; it
becomes an exception only where a caller asks for one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from interlock.core.record import Record

#: How many reasons the text of an error shows at most; `reasons` has them all.
_REASONS_TOLD = 20


class Exit(IntEnum):
    """Exit codes of the command line, the same on every command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NO_WORK = 3
    HELD = 4
    LEASE_LOST = 5
    STALE_REVISION = 6


class InterlockError(Exception):
    """Something that Interlock could not do: one sentence and a hint."""

    code = "error"
    exit_code = Exit.ERROR
    #: Where a run meets it: a fault of the set-up (of this machine, or of its lane alone), or the run's own.
    setup: Literal["machine", "lane"] | None = None

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.sentence} {self.hint}".strip()


class InvalidInput(InterlockError):
    """The input breaks a stated rule; nothing was changed."""

    code = "invalid_input"
    exit_code = Exit.USAGE


class TooLarge(InvalidInput):
    """The input is over a stated limit; nothing was changed."""

    code = "too_large"


class _WithReasons(Exception):
    """Errors with several reasons; their text lists them, as the sentence may only say how many there are."""

    sentence: str
    hint: str

    def __init__(self, sentence: str, hint: str = "", *, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(sentence, hint)
        self.reasons = reasons or (sentence,)

    def __str__(self) -> str:
        if self.reasons == (self.sentence,):
            return super().__str__()
        told = [f"- {reason}" for reason in self.reasons[:_REASONS_TOLD]]
        if len(self.reasons) > _REASONS_TOLD:
            told.append(f"- and {len(self.reasons) - _REASONS_TOLD:,} more")
        return "\n".join(part for part in (self.sentence, *told, self.hint) if part)


class InvalidPlan(_WithReasons, InvalidInput):
    """A plan or an edit has mistakes; nothing was changed. `reasons` has a sentence for each."""

    code = "invalid_plan"


class NotFound(InterlockError):
    """There is no such item, agent or run in this store."""

    code = "not_found"


class NotTrusted(InterlockError):
    """A repository's file or link asks for something that needs the user's trust."""

    code = "not_trusted"


class UnknownRun(InvalidInput):
    """The text is not a handle; nothing was changed."""

    code = "unknown_run"


class LeaseLost(InterlockError):
    """The run no longer owns its item; what it wanted to write was refused."""

    code = "lease_lost"
    exit_code = Exit.LEASE_LOST


class Held(InterlockError):
    """Somebody else has it; nothing was changed."""

    code = "held"
    exit_code = Exit.HELD


class ItemEnded(InterlockError):
    """The item has ended, so this is no longer possible."""

    code = "item_ended"

    def __init__(self, sentence: str, hint: str = "", *, reason: str = "") -> None:
        super().__init__(sentence, hint)
        #: Why it ended, as on the item.
        self.reason = reason


class EditRefused(_WithReasons, InterlockError):
    """The edit breaks rules of plans, or the item has started; nothing was changed. `reasons` has a sentence
    for each."""

    code = "edit_refused"


class StaleRevision(EditRefused):
    """The plan has changed since the edit's base, in a place that the edit touches, or the item since it was
    looked at; nothing was changed."""

    code = "stale_revision"
    exit_code = Exit.STALE_REVISION


class CycleExpired(EditRefused):
    """The edit came after the deadline of its cycle; claims have resumed, and nothing was changed."""

    code = "edit_cycle_expired"
    exit_code = Exit.LEASE_LOST


class PlanEnded(EditRefused):
    """The plan has ended and can no longer be edited."""

    code = "plan_ended"


class IllegalTransition(InterlockError):
    """A state change that the transition tables do not allow: a defect, never a user's mistake."""

    code = "illegal_transition"


class StoreUnavailable(InterlockError):
    """The database cannot be reached or written right now."""

    code = "store_unavailable"


class StoreRefused(StoreUnavailable):
    """The database refuses this program: a role, a password, a right. Waiting does not mend it."""

    code = "store_refused"


class StoreBusy(InterlockError):
    """Another writer held the database for longer than the busy timeout."""

    code = "store_busy"


class StoreReplaced(InterlockError):
    """The database was removed or replaced while this process had it open; its leases there are lost."""

    code = "store_replaced"


class StoreSealed(InterlockError):
    """The store was copied to another place and takes no more writes; it can still be read."""

    code = "store_sealed"

    def __init__(self, place: str) -> None:
        super().__init__(
            f"This store is sealed for its copy to {place}, and takes no more writes.",
            "Let INTERLOCK_URL name the new place. If the copy was interrupted, run it again.",
        )


class Repeated(InterlockError):
    """The request was carried out by another call meanwhile; nothing was changed by this one."""

    code = "repeated"


class NotAllowed(InterlockError):
    """The token does not let its bearer do this."""

    code = "not_allowed"


class NoToken(InterlockError):
    """The server wants a token, and this one lets nobody in: unknown, revoked or over."""

    code = "no_token"


class TooManyRequests(InterlockError):
    """The server has been asked too much in too short a time."""

    code = "too_many_requests"


class SchemaMismatch(InterlockError):
    """The database was made by an older or a newer Interlock, or was changed by hand."""

    code = "schema_mismatch"


class Closed(InterlockError):
    """The program has closed this connection to the store; nothing was changed."""

    code = "closed"


class CommandUnusable(InterlockError):
    """The command to run under a lease is not there or may not be run."""

    code = "command_unusable"


class GitFailed(InterlockError):
    """A git command failed."""

    code = "git_failed"


class GitMissing(GitFailed):
    """There is no git on this machine."""

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
    """Whoever would ask GitHub has no token for it."""

    code = "no_github_token"


class GitHubUnavailable(InterlockError):
    """GitHub cannot be reached, or has a fault of its own. `uncertain`: a write may have been carried out."""

    code = "github_unavailable"

    def __init__(self, sentence: str, hint: str = "", *, uncertain: bool = False) -> None:
        super().__init__(sentence, hint)
        self.uncertain = uncertain


class GitHubRefused(InterlockError):
    """GitHub does not do what was asked, whoever asks again; `status` is that of HTTP."""

    code = "github_refused"

    def __init__(self, sentence: str, hint: str = "", *, status: int) -> None:
        super().__init__(sentence, hint)
        self.status = status


class GitHubLimited(InterlockError):
    """GitHub allows nothing more for `wait_s`. `why` is `allowance`, `reserve` or `secondary`."""

    code = "github_limited"

    def __init__(self, sentence: str, hint: str = "", *, wait_s: float, why: str) -> None:
        super().__init__(sentence, hint)
        self.wait_s, self.why = wait_s, why


class UnreadableState(GitFailed):
    """A ref of Interlock holds something that Interlock did not write. It counts as held, never as free."""

    code = "unreadable_state"
    exit_code = Exit.HELD
    setup = "lane"


class TwoStores(GitFailed):
    """The lane's fence belongs to another store, which may be in use."""

    code = "two_stores"
    exit_code = Exit.HELD
    setup = "lane"


class FenceAhead(LeaseLost):
    """The lane's fence was ahead of the store, which had been set back; its numbers go on above it now."""

    code = "fence_ahead"
    setup = "lane"


class PushFailed(GitFailed):
    """The push failed for a reason other than the lease; the branch is unchanged."""

    code = "push_failed"


class RebaseConflict(PushFailed):
    """Our commits and those of others change the same lines; the working tree is unchanged."""

    code = "rebase_conflict"


class Refusal(Record):
    """A write of a run that was refused, and why."""

    code: str
    sentence: str
    hint: str

    def error(self) -> InterlockError:
        """The refusal as an exception."""
        kind = CycleExpired if self.code == CycleExpired.code else LeaseLost
        return kind(self.sentence, self.hint)
