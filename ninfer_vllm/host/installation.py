"""What is installed on this machine, for the doctor."""

from __future__ import annotations

from pathlib import Path

import torch
import vllm
from vllm.platforms import current_platform


def host_version() -> str:
    """The host's version as it states it; distributions of some builds are named differently."""
    return vllm.__version__


def host_folder() -> Path:
    """The folder of the host's package."""
    return Path(next(iter(vllm.__path__)))


def torch_version() -> str:
    """The version of torch."""
    return str(torch.__version__)


def device() -> str:
    """The device that the host would run on."""
    kind = current_platform.device_type
    if kind == "cpu":
        return f"cpu, {torch.get_num_threads()} threads"
    return f"{kind}, {torch.accelerator.device_count()} x {current_platform.get_device_name()}"
