"""What errors of the libraries below HTTP mean, and how they are handed on without a key of ours."""

from __future__ import annotations

from collections.abc import Iterator

import requests
from urllib3.exceptions import InvalidHeader, ReadTimeoutError

from workers.http.dialer import Flooded
from workers.http.redaction import Redactor

# Where errors of the libraries keep requests, with their URLs and headers.
_CARRIERS = frozenset({"request", "response", "url", "pool", "_pool", "conn", "_conn"})
# The first that fits. Many of the library's errors are values or connections by inheritance.
_FAILURES: tuple[tuple[type[Exception], str, str], ...] = (
    (requests.exceptions.SSLError, "tls_failed", "the secure connection could not be set up"),
    (requests.exceptions.ContentDecodingError, "bad_encoding", "the body cannot be unpacked"),
    (requests.exceptions.InvalidHeader, "connection_failed", "the answer contradicts itself"),
    (ValueError, "bad_url", "the address cannot be asked"),
)


def reason_of(error: Exception) -> tuple[str, str]:
    """The stored reason of a failure below HTTP, and its words for people."""
    if any(isinstance(each, Flooded) for each in _chain_of(error)):
        return "body_too_large", "more was sent than any answer needs"
    is_wrapped_timeout = bool(error.args) and isinstance(error.args[0], ReadTimeoutError | TimeoutError)
    if isinstance(error, requests.Timeout | TimeoutError | ReadTimeoutError) or is_wrapped_timeout:
        return "timeout", "no answer within the time limit"
    for kind, reason, what in _FAILURES:
        if isinstance(error, kind):
            return reason, what
    return "connection_failed", "the connection was refused or broke"


def is_about_our_header(error: Exception) -> bool:
    """Whether a header of the request is bad. The library uses the same class for those of an answer."""
    if isinstance(error, UnicodeEncodeError):
        return True
    is_of_answer = any(isinstance(each, InvalidHeader) for each in error.args)
    return isinstance(error, requests.exceptions.InvalidHeader) and not is_of_answer


def clean_cause(error: Exception, redactor: Redactor) -> Exception | None:
    """The error itself as a cause, without the requests it carries; None when its text has a secret."""
    # The text of such an error quotes the header, which may be a key.
    if is_about_our_header(error):
        return None
    for each in _chain_of(error):
        if not redactor.is_clean(str(each)):
            return None
        for name in _CARRIERS & vars(each).keys():
            vars(each)[name] = None
    return error


def _chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those it stems from."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]
