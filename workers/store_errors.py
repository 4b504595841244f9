"""What repositories on MongoDB raise instead of the driver's exceptions.

    ConvergeError
    ├── DuplicateKey       a unique index refused a row: somebody else has stored it
    └── RetryableError     the store did not answer, or answered that it cannot now

`DuplicateKey` is not a failure by itself: among writers that run at once it says that the row is there, so
the caller looks it up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bson.errors import BSONError
from pymongo.errors import DuplicateKeyError, PyMongoError

from workers.errors import ConvergeError, InvalidInput, RetryableError

DUPLICATE_KEY_CODE = 11000


class DuplicateKey(ConvergeError):
    """A unique index of `collection` refused a row."""

    def __init__(self, message: str, *, collection: str) -> None:
        super().__init__(message)
        self.collection = collection


@contextmanager
def translated(collection: str) -> Iterator[None]:
    """Turn the driver's exceptions of the body into ours.

    Raises `DuplicateKey`, `InvalidInput` for a value that no document can hold, or `RetryableError`.
    """
    try:
        yield
    except DuplicateKeyError as exc:
        raise DuplicateKey(f"{collection} has such a row already", collection=collection) from exc
    except (BSONError, OverflowError, UnicodeEncodeError) as exc:
        raise InvalidInput(f"{collection} cannot store such a value", field=collection) from exc
    except PyMongoError as exc:
        raise RetryableError(f"the store failed on {collection}: {type(exc).__name__}") from exc
