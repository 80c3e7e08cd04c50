"""The V2 worker's sampler: constrained rows are masked and sampled by our kernels; every other row by the host."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from ninfer_vllm.host.device_step import (
    DeviceFaults,
    Part,
    begin_device_step,
    current_device_step,
    open_step,
    opened,
)
from ninfer_vllm.host.options import options_of
from ninfer_vllm.host.row_faults import report_faults


def sample_step(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let the host's mask worker and samplers find the step, and send its faults with the tokens."""

    @wraps(original)
    def sample(self: Any, hidden_states: torch.Tensor, input_batch: Any, grammar_output: Any) -> Any:
        if grammar_output is None or options_of(self.vllm_config) is None:
            return original(self, hidden_states, input_batch, grammar_output)
        with opened() as found:
            sampled = original(self, hidden_states, input_batch, grammar_output)
        if found.step is not None:
            sampled[0].ninfer_faults = found.step.faults
            # The next masks are copied on a stream of their own, into the memory that this step's kernels read.
            self.structured_outputs_worker.copy_stream.wait_stream(torch.cuda.current_stream())
        return sampled

    return sample


def apply_masks(original: Callable[..., Any]) -> Callable[..., Any]:
    """Apply the masks with our kernel, which also tells what the model wrote among the legal tokens."""

    @wraps(original)
    def apply(self: Any, logits: torch.Tensor, input_batch: Any, grammar_req_ids: list[str], bitmask: Any) -> None:
        found = open_step()
        if found is None or not grammar_req_ids:
            original(self, logits, input_batch, grammar_req_ids, bitmask)
        else:
            found.step = begin_device_step(self, logits, input_batch, grammar_req_ids, bitmask)

    return apply


def before_temperature(original: Callable[..., Any]) -> Callable[..., Any]:
    """Choose the tokens of constrained rows from logits that temperature has not touched yet."""

    @wraps(original)
    def apply(self: Any, logits: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        step = current_device_step()
        if step is not None:
            step.choose(logits, self)
        original(self, logits, *args, **kwargs)

    return apply


def unprocessed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Choose the tokens from logits as they are, where no request of the batch asks for anything."""

    @wraps(original)
    def apply(self: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        processed: torch.Tensor = original(self, *args, **kwargs)
        step = current_device_step()
        if step is not None:
            step.choose(processed, self.sampling_states)
        return processed

    return apply


def draw(original: Callable[..., Any]) -> Callable[..., Any]:
    """Tokens of a step without drafts."""

    @wraps(original)
    def sample(  # noqa: PLR0917 - the order of the host's own arguments
        self: Any,
        logits: torch.Tensor,
        expanded_idx_mapping: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: Any,
        pos: torch.Tensor,
        input_ids: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        given = (logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, pos, input_ids, *args)
        step = current_device_step()
        if step is None:
            return original(self, *given, **kwargs)
        starts = torch.arange(len(logits) + 1, dtype=torch.int32, device=logits.device)
        with step.sampling(Part(idx_mapping_np, starts, pos, input_ids, None, 0)):
            tokens, processed = original(self, *given, **kwargs)
        step.put(tokens.view(-1, 1), None)
        return tokens, processed

    return sample


def verify(original: Callable[..., Any]) -> Callable[..., Any]:
    """Accepted drafts, corrections and bonus tokens."""

    @wraps(original)
    def verify_part(  # noqa: PLR0913, PLR0917 - the order of the host's own arguments
        self: Any,
        logits: torch.Tensor,
        draft_logits: torch.Tensor | None,
        draft_sampled: torch.Tensor,
        pos: torch.Tensor,
        cu_num_logits: torch.Tensor,
        idx_mapping: torch.Tensor,
        idx_mapping_np: Any,
        expanded_idx_mapping: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        seq_lens_upper_bound_np: Any,
        verify_draft_sampled: torch.Tensor,
    ) -> Any:
        given = (
            logits, draft_logits, draft_sampled, pos, cu_num_logits, idx_mapping, idx_mapping_np, expanded_idx_mapping,
            expanded_local_pos, seq_lens_upper_bound_np, verify_draft_sampled,
        )  # fmt: skip
        step = current_device_step()
        if step is None:
            return original(self, *given)
        most = self.num_speculative_steps
        with step.sampling(Part(idx_mapping_np, cu_num_logits, pos, verify_draft_sampled, draft_logits, most)):
            processed, tokens, num_tokens = original(self, *given)
        step.put(tokens, num_tokens)
        return processed, tokens, num_tokens

    return verify_part


def draw_for_others(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let the host draw nothing where no row is its own and nobody asks for what it makes of the logits."""

    @wraps(original)
    def sample(self: Any, processed_logits: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        step = current_device_step()
        wants_processed = self.logprobs_mode.startswith("processed") or self.return_sampling_mask
        if step is None or wants_processed or not step.is_whole(len(processed_logits)):
            return original(self, processed_logits, *args, **kwargs)
        return torch.zeros(len(processed_logits), dtype=torch.int64, device=processed_logits.device), processed_logits

    return sample


def verify_for_others(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let the host verify nothing where no row is its own."""

    @wraps(original)
    def rejection_sample(  # noqa: PLR0913, PLR0917 - the order of the host's own arguments
        target_logits: torch.Tensor,
        draft_logits: torch.Tensor | None,
        draft_sampled: torch.Tensor,
        cu_num_logits: torch.Tensor,
        pos: torch.Tensor,
        idx_mapping: torch.Tensor,
        expanded_idx_mapping: torch.Tensor,
        expanded_local_pos: torch.Tensor,
        temperature: torch.Tensor,
        seed: torch.Tensor,
        num_speculative_steps: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        step, count = current_device_step(), len(idx_mapping)
        if step is not None and step.is_whole(count):
            tokens = draft_sampled.new_zeros(count, num_speculative_steps + 1, dtype=torch.int64)
            return tokens, cu_num_logits.new_ones(count, dtype=torch.int32)
        found: tuple[torch.Tensor, torch.Tensor] = original(
            target_logits, draft_logits, draft_sampled, cu_num_logits, pos, idx_mapping, expanded_idx_mapping,
            expanded_local_pos, temperature, seed, num_speculative_steps, *args, **kwargs,
        )  # fmt: skip
        return found

    return rejection_sample


def with_room_for_faults(original: Any) -> Any:
    """The same class, with a default for the faults of rows."""
    original.ninfer_faults = None
    return original


def copy_faults(original: Callable[..., Any]) -> Callable[..., Any]:
    """Copy the faults to the host beside the tokens."""

    @wraps(original)
    def create(
        self: Any,
        model_runner_output: Any,
        sampler_output: Any,
        num_sampled_tokens: torch.Tensor,
        main_stream: Any,
        copy_stream: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        faults: DeviceFaults | None = sampler_output.ninfer_faults
        self.ninfer_faults = None
        if faults is not None:
            # The host records its event on the same stream, behind this.
            copy_stream.wait_stream(main_stream)
            with torch.cuda.stream(copy_stream):
                self.ninfer_faults = faults.on_host()
        given = (model_runner_output, sampler_output, num_sampled_tokens, main_stream, copy_stream)
        original(self, *given, *args, **kwargs)

    return create


def tell_faults(original: Callable[..., Any]) -> Callable[..., Any]:
    """Put the faults on the worker's output, once the device has come to them."""

    @wraps(original)
    def get(self: Any) -> Any:
        output = original(self)
        told = {} if self.ninfer_faults is None else self.ninfer_faults.told()
        if told:
            report_faults(output, told)
        return output

    return get
