"""Links as tokens really carry them, through the real clients to the sandbox: each ends with a status."""

from __future__ import annotations

import csv
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.recording_place import RecordingPlace, place, sandbox
from workers.social_graph.vocabulary import FetchStatus
from workers.social_recording.recording import TokenOutcome
from workers.social_recording.routing import links_in

__all__ = ["place", "sandbox"]

CORPUS = Path(__file__).parents[1] / "corpus" / "urls"
LINKS_MIN = 480
LINKS_PER_TOKEN = 25


def links_of_the_corpus() -> list[str]:
    """The distinct links of all files, in their order."""
    found: dict[str, None] = {}
    for path in sorted(CORPUS.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                found.update(dict.fromkeys(link.url for link in links_in(row["url"]) if link.url))
    return list(found)


def test_the_links_of_real_tokens_each_end_with_a_status_and_say_why(place: RecordingPlace) -> None:
    links = links_of_the_corpus()
    assert len(links) >= LINKS_MIN
    batches = [links[start : start + LINKS_PER_TOKEN] for start in range(0, len(links), LINKS_PER_TOKEN)]
    addresses = place.list_tokens(*({"website": " ".join(batch)} for batch in batches))
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(place.recorder.record, addresses))
    assert {report.outcome for report in reports} == {TokenOutcome.RECORDED}
    elements = [element for address in addresses for element in place.document(address)["social_urls"]]
    assert len(elements) == len(links)
    statuses = Counter(FetchStatus(element["status"]) for element in elements)
    assert statuses[FetchStatus.OK] > len(links) / 2, statuses
    assert statuses[FetchStatus.INVALID] == 0, statuses
    for element in elements:
        waits = element["status"] in (FetchStatus.UNSUPPORTED, FetchStatus.SKIPPED_PAID)
        assert element["status"] == FetchStatus.OK or waits or element["reason"], element
        assert element["reason"] != "internal", element
