"""Mask rows applied to logits, with the check of what the model wrote there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ninfer_vllm.masks.bits import WORD_BITS, MaskRow


def mask_logits(logits: torch.Tensor, row_of: Sequence[int], masks: Sequence[MaskRow]) -> list[bool]:
    """Set to minus infinity every logit whose bit is 0, and tell which rows hold nothing sound.

    Formula:  logits[row_of[r], t] = -inf  where bit t of masks[r] is 0 or lies behind its last word.
              A row is sound if none of its legal logits is NaN or +inf and at least one is finite.
    Shapes:   logits [rows, V] of any floating type, columns contiguous; a mask holds up to ceil(V/32) words or more.
    Effects:  writes logits in place; other rows are untouched.
    Returns:  for each mask, whether its row is sound.
    """
    if logits.is_cuda:
        return _on_device(logits, row_of, masks)
    sound = []
    for index, words in zip(row_of, masks, strict=True):
        row = logits[index]
        row.masked_fill_(torch.from_numpy(_illegal(words, row.shape[0])), float("-inf"))
        # A maximum over NaN is NaN, so this one number tells all three cases.
        sound.append(bool(torch.isfinite(row.amax())))
    return sound


def _illegal(words: MaskRow, width: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    bits = np.unpackbits(words.view(np.uint8), bitorder="little", count=min(width, len(words) * WORD_BITS))
    illegal = np.ones(width, dtype=np.bool_)
    illegal[: len(bits)] = bits == 0
    return illegal


def _on_device(logits: torch.Tensor, row_of: Sequence[int], masks: Sequence[MaskRow]) -> list[bool]:
    from ninfer_kernels.masking import apply_mask

    words = torch.from_numpy(np.stack(masks)).to(logits.device, non_blocking=True)
    rows = torch.tensor(list(row_of), dtype=torch.int32, device=logits.device)
    sound: list[bool] = (apply_mask(logits, words, rows) == 0).tolist()
    return sound
