"""Written lists of MongoDB's indexes: one index, comparing a store with a list, creating what is missing.

The order of the fields says what a query may use. Nothing is ever dropped or rebuilt here: an index that
differs, that nobody wrote down, or that stands in the way of a written one is reported, and a person decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo import ASCENDING, DESCENDING
from pymongo.errors import DuplicateKeyError, OperationFailure

from workers.mongo import Document, MongoDatabase
from workers.store_errors import DuplicateKey, translated

# What the store says about every index, beside what `IndexSpec` names.
_PLAIN_OPTIONS = frozenset({"v", "key", "name", "ns", "background", "unique", "partialFilterExpression"})
# IndexOptionsConflict and IndexKeySpecsConflict: there is an index of that form or that name already.
_CONFLICT_CODES = frozenset({85, 86})


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexSpec:
    """One index. `partial` is the filter of the rows that it holds; None for all rows.

    `options` is what no written index has: a time to live would delete rows, a collation or `sparse` would
    change which rows are the same or found.
    """

    collection: str
    name: str
    keys: tuple[tuple[str, int | str], ...]
    unique: bool = False
    partial: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, collection: str, name: str, stored: Mapping[str, Any]) -> IndexSpec:
        """Read what the store says about an index."""
        partial = stored.get("partialFilterExpression")
        return cls(
            collection=collection,
            name=name,
            keys=tuple((str(each), _direction(kind)) for each, kind in stored["key"]),
            unique=bool(stored.get("unique", False)),
            partial=None if partial is None else _plain(partial),
            options={
                option: _plain(value)
                for option, value in stored.items()
                if option not in _PLAIN_OPTIONS and value is not False
            },
        )


def _direction(kind: Any) -> int | str:
    """1 or -1, which a store may give as a float; `hashed`, `text` and the like stay words."""
    return kind if isinstance(kind, str) else int(kind)


def _plain(value: Any) -> Any:
    """Without the driver's own kinds of mappings, whose order counts when they are compared."""
    return {name: _plain(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def index(
    collection: str, name: str, *fields: str, unique: bool = False, partial: Document | None = None
) -> IndexSpec:
    """An index as it is written in a list; a field with a leading minus is descending."""
    keys = tuple((each.lstrip("-"), DESCENDING if each.startswith("-") else ASCENDING) for each in fields)
    return IndexSpec(collection=collection, name=name, keys=keys, unique=unique, partial=partial)


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationReport:
    """Names of indexes: created now, found as written, missing, found different, and not on the list.

    Those not on the list are named together with their collection.
    """

    created: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def is_as_written(self) -> bool:
        """Whether the store now has the list and nothing else."""
        return not (self.missing or self.differing or self.unknown)


def check(database: MongoDatabase, indexes: Sequence[IndexSpec]) -> MigrationReport:
    """Compare the store with the list; looks at the list's collections only, and changes nothing."""
    stored = _stored(database, dict.fromkeys(spec.collection for spec in indexes))
    written = {(spec.collection, spec.name): spec for spec in indexes}
    found = {place: stored[place] for place in written if place in stored}
    return MigrationReport(
        present=tuple(spec.name for place, spec in found.items() if spec == written[place]),
        missing=tuple(spec.name for place, spec in written.items() if place not in stored),
        differing=tuple(spec.name for place, spec in found.items() if spec != written[place]),
        unknown=tuple(f"{collection}.{name}" for collection, name in sorted(set(stored) - set(written))),
    )


def migrate(database: MongoDatabase, indexes: Sequence[IndexSpec]) -> MigrationReport:
    """Create what is missing of the list. Running it again changes nothing.

    What cannot be created because an unknown index has its fields already stays `missing`. Raises
    `DuplicateKey` when stored rows contradict a unique index.
    """
    before = check(database, indexes)
    wanted = [spec for spec in indexes if spec.name in before.missing]
    created = tuple(spec.name for spec in wanted if _create(database, spec))
    return MigrationReport(
        created=created,
        present=before.present,
        missing=tuple(name for name in before.missing if name not in created),
        differing=before.differing,
        unknown=before.unknown,
    )


def _create(database: MongoDatabase, spec: IndexSpec) -> bool:
    """Create the index; False when another one is in its way."""
    options: Document = {"name": spec.name, "unique": spec.unique}
    if spec.partial is not None:
        options["partialFilterExpression"] = dict(spec.partial)
    with translated(spec.collection):
        try:
            database[spec.collection].create_index(list(spec.keys), **options)
        except DuplicateKeyError as exc:
            raise DuplicateKey(
                f"{spec.name} cannot be created: rows of {spec.collection} contradict it",
                collection=spec.collection,
            ) from exc
        except OperationFailure as exc:
            if exc.code not in _CONFLICT_CODES:
                raise
            return False
    return True


def _stored(database: MongoDatabase, collections: Iterable[str]) -> dict[tuple[str, str], IndexSpec]:
    found: dict[tuple[str, str], IndexSpec] = {}
    for collection in collections:
        with translated(collection):
            information = database[collection].index_information()
        for name, stored in information.items():
            if name != "_id_":
                found[collection, name] = IndexSpec.read(collection, name, stored)
    return found
