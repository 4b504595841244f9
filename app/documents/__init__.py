"""What goes over the wire: the answers' shapes, from which both the answers and the specification are made.

Keys are camelCase, times are UTC with `Z`. One envelope holds jobs of every kind.
"""

from __future__ import annotations

from app.documents.fundings import (
    BlockedFunding,
    BlockedFundings,
    BrickCounters,
    BrickTruth,
)
from app.documents.jobs import (
    Job,
    JobError,
    JobInList,
    JobLinks,
    JobList,
    JobProgress,
    JobResult,
    JobResultMeta,
)
from app.documents.problems import (
    Alive,
    Problem,
    ProblemError,
    Ready,
)
from app.documents.social_graph import (
    AsOfMeta,
    GraphObject,
    LinkedObject,
    ObjectTokens,
    ReferencesMeta,
    ReferringToken,
    Token,
    TokenObjects,
    TokenURL,
    TokenWeb,
    URLExplanation,
)
from app.documents.words import (
    ERROR_CODE,
    EXAMPLE_ADDRESS,
    EXAMPLE_OBJECT_ID,
    EXAMPLE_SIGNATURE,
    JOB_KIND_NAMES,
    JobID,
    KindName,
    PageLinks,
    PageMeta,
)

__all__ = [
    "ERROR_CODE",
    "EXAMPLE_ADDRESS",
    "EXAMPLE_OBJECT_ID",
    "EXAMPLE_SIGNATURE",
    "JOB_KIND_NAMES",
    "Alive",
    "AsOfMeta",
    "BlockedFunding",
    "BlockedFundings",
    "BrickCounters",
    "BrickTruth",
    "GraphObject",
    "Job",
    "JobError",
    "JobID",
    "JobInList",
    "JobLinks",
    "JobList",
    "JobProgress",
    "JobResult",
    "JobResultMeta",
    "KindName",
    "LinkedObject",
    "ObjectTokens",
    "PageLinks",
    "PageMeta",
    "Problem",
    "ProblemError",
    "Ready",
    "ReferencesMeta",
    "ReferringToken",
    "Token",
    "TokenObjects",
    "TokenURL",
    "TokenWeb",
    "URLExplanation",
]
