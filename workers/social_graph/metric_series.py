"""Metric series: what an object measured over time, one row per object. The model and its repository.

Points are appended by real observations only, ordered by time, never two with the same time, and the newest
200 are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo import InsertOne, UpdateOne

from workers.clock import Clock
from workers.mongo import Document, Filter, MongoDatabase
from workers.social_graph.metric_spec import RawMetrics, pick_known_metrics
from workers.social_graph.stored_data import known_fields, present_fields
from workers.social_graph.stored_text import known_word
from workers.social_graph.stored_time import required_time
from workers.social_graph.vocabulary import SERIES_POINTS_MAX, ObjectKind, Platform
from workers.social_graph.write_batch import Write, write_in_order
from workers.store_errors import translated

COLLECTION = "metric_series"


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricPoint:
    """What was measured at one time of observation."""

    at: datetime
    metrics: Mapping[str, int | float]

    def to_document(self) -> Document:
        """The stored form."""
        return {"at": self.at, "metrics": dict(self.metrics)}


@dataclass(frozen=True, kw_only=True, slots=True)
class PointAppend:
    """One point and the object it belongs to."""

    object: ObjectKind
    object_id: ObjectId
    platform: Platform
    point: MetricPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricSeries:
    """The points of one object."""

    object: ObjectKind
    object_id: ObjectId
    platform: Platform
    points: tuple[MetricPoint, ...] = ()
    id: ObjectId = field(default_factory=ObjectId)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(cls, object: ObjectKind, object_id: ObjectId, platform: Platform) -> MetricSeries:
        """An empty series. Raises `InvalidInput` for an unknown kind or platform."""
        return cls(
            object=known_word(ObjectKind, object, "object"),
            object_id=object_id,
            platform=known_word(Platform, platform, "platform"),
        )

    @staticmethod
    def build_point(
        platform: Platform,
        object: ObjectKind,
        metrics: RawMetrics,
        observed_at: datetime,
    ) -> MetricPoint | None:
        """A point of the metrics that may be stored; None when none may.

        Raises `InvalidInput` for a time without a zone.
        """
        at = required_time(observed_at, "points.at")
        known = pick_known_metrics(platform, object, metrics).metrics
        return MetricPoint(at=at, metrics=known) if known else None

    def to_document(self) -> Document:
        """The stored form."""
        return present_fields(
            _id=self.id,
            object=self.object.value,
            object_id=self.object_id,
            platform=self.platform.value,
            points=[point.to_document() for point in self.points],
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> MetricSeries:
        """Read the stored form."""
        return cls(
            id=document["_id"],
            object=ObjectKind(document["object"]),
            object_id=document["object_id"],
            platform=Platform(document["platform"]),
            points=tuple(known_fields(MetricPoint, point) for point in document.get("points", ())),
            created_at=document.get("created_at"),
            updated_at=document.get("updated_at"),
        )


class MetricSeriesRepository:
    """The collection `metric_series`. The object's kind leads every query, as it leads the unique index."""

    def __init__(self, database: MongoDatabase, clock: Clock) -> None:
        self._database = database
        self._collection = database[COLLECTION]
        self._clock = clock

    def append_point(
        self,
        object: ObjectKind,
        object_id: ObjectId,
        platform: Platform,
        point: MetricPoint,
    ) -> None:
        """Add one point, unless the series has a point of that time already."""
        write = self._appending(
            PointAppend(object=object, object_id=object_id, platform=platform, point=point)
        )
        # Two workers that start a series at once both try to insert its row; the one that is refused appends.
        if not write_in_order(self._database, [write]).is_complete:
            write_in_order(self._database, [write])

    def writes_of(self, appends: Sequence[PointAppend], new_ids: frozenset[ObjectId]) -> list[Write]:
        """The writes that add the points, at most one per object.

        An object of `new_ids` is stored by the same batch and has no series yet; to start one is cheaper than
        to append to it.
        """
        return [self._start(each) if each.object_id in new_ids else self._appending(each) for each in appends]

    def find_by_object(self, object: ObjectKind, object_id: ObjectId) -> MetricSeries | None:
        """The whole series."""
        return self._find_one(_key(object, object_id))

    def find_latest_point(self, object: ObjectKind, object_id: ObjectId) -> MetricPoint | None:
        """The newest point."""
        series = self._find_one(_key(object, object_id), projection={"points": {"$slice": -1}})
        return series.points[-1] if series and series.points else None

    def find_platform_cohort(self, platform: Platform, limit: int) -> list[MetricSeries]:
        """Series of one platform, latest started first."""
        with translated(COLLECTION):
            documents = list(
                self._collection.find({"platform": platform.value}, limit=limit).sort([("_id", -1)])
            )
        return [MetricSeries.from_document(document) for document in documents]

    def _start(self, append: PointAppend) -> Write:
        now = self._clock.now()
        row = {
            **_key(append.object, append.object_id),
            "platform": append.platform.value,
            "points": [append.point.to_document()],
            "created_at": now,
            "updated_at": now,
        }
        return InsertOne(row, namespace=self._collection.full_name)

    def _appending(self, append: PointAppend) -> Write:
        """Append, sort and cut in one step on the store's side.

        Whether the time is there is asked inside the update: as a negation in the condition it would keep the
        index from being used.
        """
        now = self._clock.now()
        points: Document = {"$ifNull": ["$points", []]}
        times: Document = {"$map": {"input": points, "as": "point", "in": "$$point.at"}}
        is_there: Document = {"$in": [append.point.at, times]}
        longer: Document = {"$concatArrays": [points, [{"$literal": append.point.to_document()}]]}
        kept: Document = {
            "$slice": [{"$sortArray": {"input": longer, "sortBy": {"at": 1}}}, -SERIES_POINTS_MAX]
        }
        fields: Document = {
            "platform": {"$ifNull": ["$platform", append.platform.value]},
            "created_at": {"$ifNull": ["$created_at", now]},
            "updated_at": {"$cond": [is_there, "$updated_at", now]},
            "points": {"$cond": [is_there, "$points", kept]},
        }
        return UpdateOne(
            _key(append.object, append.object_id),
            [{"$set": fields}],
            upsert=True,
            namespace=self._collection.full_name,
        )

    def _find_one(self, condition: Filter, projection: Document | None = None) -> MetricSeries | None:
        with translated(COLLECTION):
            document = self._collection.find_one(condition, projection)
        return None if document is None else MetricSeries.from_document(document)


def _key(kind: ObjectKind, object_id: ObjectId) -> Document:
    return {"object": ObjectKind(kind).value, "object_id": object_id}
