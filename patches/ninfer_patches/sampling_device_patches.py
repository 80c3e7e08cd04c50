"""The patches of the V2 worker's sampler, in the order a step meets them."""

from __future__ import annotations

from ninfer_patches.patch import Patch
from ninfer_patches.sampling_patches import ONE_CONTRACT

GPU = "vllm.v1.worker.gpu"
REPLACEMENTS = "ninfer_patches.sampling_device"

SAMPLING_ON_DEVICE = (
    Patch(
        f"{GPU}.model_runner:GPUModelRunner.sample",
        f"{REPLACEMENTS}:sample_step",
        why="constrained rows of the V2 runner are sampled by the contract, and their faults told (SPC-7, ERR-4)",
        keeps="steps without constrained rows",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.structured_outputs:StructuredOutputsWorker.apply_grammar_bitmask",
        f"{REPLACEMENTS}:apply_masks",
        why="tells unsound logits of legal tokens from rows without a candidate (SMP-4)",
        keeps="the mask's effect on the logits",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.sample.sampler:Sampler.sample",
        f"{REPLACEMENTS}:draw",
        why="tokens of constrained rows: smallest id at ties, numbers by seed and position (SMP-2, SMP-5)",
        keeps="rows of other requests, log probabilities",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.sample.sampler:Sampler.apply_sampling_params",
        f"{REPLACEMENTS}:unprocessed",
        why="constrained rows are chosen in batches too that the host does not process",
        keeps="everything",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.sample.states:SamplingStates.apply_temperature",
        f"{REPLACEMENTS}:before_temperature",
        why="the targets of constrained rows before the host's temperature (SMP-2)",
        keeps="everything",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.spec_decode.rejection_sampler:RejectionSampler._verify",
        f"{REPLACEMENTS}:verify",
        why="constrained rows are verified against the masked target and the real proposal (SPC-1 to SPC-6)",
        keeps="rows of other requests",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.sample.sampler:Sampler._sample_random",
        f"{REPLACEMENTS}:draw_for_others",
        why="no time is spent on tokens that nobody takes",
        keeps="steps with a row of another request",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.spec_decode.rejection_sampler:rejection_sample",
        f"{REPLACEMENTS}:verify_for_others",
        source=f"{GPU}.spec_decode.rejection_sampler_utils:rejection_sample",
        why="no time is spent on tokens that nobody takes",
        keeps="steps with a row of another request",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        f"{GPU}.sample.output:SamplerOutput",
        f"{REPLACEMENTS}:with_room_for_faults",
        why="room for row faults beside the tokens (ERR-4)",
        keeps="everything",
        remove_when="worker outputs take extra members",
    ),
    Patch(
        f"{GPU}.async_utils:AsyncOutput.__init__",
        f"{REPLACEMENTS}:copy_faults",
        why="row faults come to the host with the tokens, without a wait of their own (ERR-4)",
        keeps="everything",
        remove_when="worker outputs take extra members",
    ),
    Patch(
        f"{GPU}.async_utils:AsyncOutput.get_output",
        f"{REPLACEMENTS}:tell_faults",
        why="carries row faults to the engine core (ERR-4)",
        keeps="everything",
        remove_when="worker outputs take extra members",
    ),
)
