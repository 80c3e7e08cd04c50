"""The one error of building an embedded model: what failed, why, and what a person can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ninfer_vllm.errors import HostError


@dataclass(eq=False)
class ModelBuildError(HostError):
    """An embedded model or tokenizer that cannot be built on this machine."""

    code: ClassVar[str] = "model_build_failed"
    subject: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"cannot build {self.subject}: {self.reason}; {self.remedy}"
