"""The host's /metrics page as numbers."""

from __future__ import annotations

from collections import Counter

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers import ANSWER_SECONDS, Server

Labels = tuple[str, ...]


class Scrape:
    """One reading of our metrics, by sample name and label values in the order of the label names."""

    def __init__(self, text: str) -> None:
        self.values: dict[str, Counter[Labels]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("ninfer_"):
                    labels = tuple(sample.labels[name] for name in sorted(sample.labels))
                    self.values.setdefault(sample.name, Counter())[labels] += sample.value

    @classmethod
    def of(cls, server: Server) -> Scrape:
        """The metrics of a running server now."""
        return cls(httpx.get(f"{server.url}/metrics", timeout=ANSWER_SECONDS).text)

    def by_labels(self, name: str) -> dict[Labels, float]:
        """The values of a metric that are not zero."""
        return {labels: value for labels, value in self.values.get(name, Counter()).items() if value}

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(self.values.get(name, Counter()).values())
