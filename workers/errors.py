"""Every error that crosses a module border, in one tree.

    ConvergeError
    ├── RetryableError(retry_in_s)      the same call may succeed later
    │   ├── FetchFailed                 a social source did not give an answer about the target
    │   │   └── CreditExhausted         ... because the budget of a source is used up
    │   └── UpstreamFailed              the tracker finally failed
    ├── PermanentError                  the same call fails the same way for ever
    │   ├── InvalidInput(field)         the caller's fault
    │   │   └── ContractViolation(rule, entry_url)   a generator broke the graph contract
    │   ├── PayloadRejected(reason)     a node's answer is no transaction that we can store (solana_backfill)
    │   ├── NotFound                    the thing asked for is not there
    │   ├── TargetGone                  a social source says that the target does not exist
    │   └── TargetBlocked               a social source says that the target is closed to us
    │       └── UnsafeAddress           the URL leads inside our own network
    ├── Busy                            somebody else is at it; not a failure
    ├── LockUnavailable                 the lock store cannot be asked; nothing runs unlocked
    ├── LeaseLost                       our lease is no longer ours; stop writing
    ├── BudgetExceeded                  the time for this piece of work is used up
    ├── DuplicateKey                    a row with this URL, key or signature is stored already (store_errors)
    ├── BrokerUnavailable               the broker did not take a message
    └── JobFailed                       what a job task raises; the one that travels to the API

Families follow what the caller does next, not where the error came from. Facts travel as attributes;
the message is for people and never holds a secret.
"""

from __future__ import annotations


class ConvergeError(Exception):
    """Root of the tree."""


class RetryableError(ConvergeError):
    """The same call may succeed later.

    `retry_in_s` is the wait that the other side asked for, in seconds, or None when it said nothing.
    """

    def __init__(self, message: str, *, retry_in_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_in_s = retry_in_s


class FetchFailed(RetryableError):
    """A social source gave no answer about the target; `reason` is the stable code that is stored."""

    def __init__(self, message: str, *, reason: str, retry_in_s: float | None = None) -> None:
        super().__init__(message, retry_in_s=retry_in_s)
        self.reason = reason


class CreditExhausted(FetchFailed):
    """The budget of `source` is used up, in money or in calls; it says nothing about the URL.

    `retry_in_s` is the time until there is a new one, where that is known.
    """

    def __init__(self, message: str, *, source: str, retry_in_s: float | None = None) -> None:
        super().__init__(message, reason="credit_exhausted", retry_in_s=retry_in_s)
        self.source = source


class UpstreamFailed(RetryableError):
    """The tracker failed after all its tries."""


class PermanentError(ConvergeError):
    """The same call fails the same way for ever."""


class InvalidInput(PermanentError):
    """The caller's input is not acceptable; `field` names what is wrong."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class ContractViolation(InvalidInput):
    """A generator's graph breaks `rule`; `entry_url` says for which URL, `field` where."""

    def __init__(self, message: str, *, rule: str, entry_url: str, field: str = "groups") -> None:
        super().__init__(f"{rule}: {message} ({entry_url})", field=field)
        self.rule = rule
        self.entry_url = entry_url


class NotFound(PermanentError):
    """The thing asked for is not there."""


class TargetGone(PermanentError):
    """The target was deleted or never existed; `reason` is the stable code that is stored."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TargetBlocked(PermanentError):
    """The target exists or existed but is closed to us; `reason` is the stable code that is stored."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnsafeAddress(TargetBlocked):
    """The URL leads to an address inside a private, loopback, link-local or reserved range."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="unsafe_address")


class Busy(ConvergeError):
    """Somebody else holds the lease. Normal under concurrency; the next run takes the work."""


class LockUnavailable(ConvergeError):
    """The lock store cannot be asked, so nothing may start."""


class LeaseLost(ConvergeError):
    """A lease expired or went to somebody else while we worked under it."""


class BudgetExceeded(ConvergeError):
    """A piece of work has used up its time."""


class BrokerUnavailable(RetryableError):
    """The broker (or the store of job records) did not take the job; nothing of it remains."""


class JobFailed(ConvergeError):
    """A job that could not do its work at all.

    It travels through the result backend, which rebuilds exceptions from one text argument; so the code
    is the part before the first colon.
    """

    @classmethod
    def because(cls, code: str, detail: str) -> JobFailed:
        """Build the error; `code` is upper-case words joined by underscores."""
        return cls(f"{code}: {detail}")

    @property
    def code(self) -> str:
        """The stable code, e.g. `UPSTREAM_FAILED`."""
        return str(self).partition(":")[0]

    @property
    def detail(self) -> str:
        """The sentence for people."""
        return str(self).partition(":")[2].strip()
