"""The patches of the worker's sampler, in the order a step meets them."""

from __future__ import annotations

from ninfer_patches.patch import Patch

ONE_CONTRACT = "the host's samplers report rows without candidates and break ties by id"
REPAIRED = "the host's CPU build has repaired it"

SAMPLING = (
    Patch(
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.sample_tokens",
        "ninfer_patches.sampling:sample_tokens",
        why="masks constrained rows, checks their logits, and carries row faults to the engine core (SMP-4, ERR-4); a"
        " seeded request whose prompt comes in chunks does not stop a CPU engine (ERR-6)",
        keeps="steps without constrained rows",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        "vllm.v1.sample.sampler:Sampler.sample",
        "ninfer_patches.sampling:draw",
        why="tokens of constrained rows: smallest id at ties, numbers by seed and position (SMP-2, SMP-5)",
        keeps="rows of other requests, log probabilities",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        "vllm.v1.sample.rejection_sampler:RejectionSampler.apply_logits_processors",
        "ninfer_patches.sampling:keep_drafted",
        why="the targets of constrained rows before the host's temperature (SMP-2)",
        keeps="everything",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        "vllm.v1.sample.rejection_sampler:rejection_sample",
        "ninfer_patches.sampling:verify",
        why="constrained rows are verified against the masked target and the real proposal (SPC-1 to SPC-6)",
        keeps="rows of other requests",
        remove_when=ONE_CONTRACT,
    ),
    Patch(
        "vllm.v1.outputs:ModelRunnerOutput",
        "ninfer_patches.sampling:with_room_for_faults",
        why="room for row faults on the way to the engine core (ERR-4)",
        keeps="everything",
        remove_when="worker outputs take extra members",
    ),
    Patch(
        "vllm.utils.cpu_triton_utils:_expand_kernel_impl",
        "ninfer_patches.sampling_cpu:expand",
        why="on a CPU the host samples verified drafts with uninitialised temperatures, top-k and top-p",
        keeps="the meaning of the kernel it stands for",
        remove_when=REPAIRED,
    ),
    Patch(
        "vllm.utils.cpu_triton_utils:_rejection_random_sample_kernel_impl",
        "ninfer_patches.sampling_cpu:reject_padding",
        why="on a CPU the host reads the probability of draft -1 out of bounds, and may accept it",
        keeps="every other draft",
        remove_when=REPAIRED,
    ),
    Patch(
        "vllm.utils.cpu_triton_utils:_sample_recovered_tokens_kernel_impl",
        "ninfer_patches.sampling_cpu:recover_without_padding",
        why="on a CPU the host takes probability out of bounds where draft -1 is corrected",
        keeps="every other draft",
        remove_when=REPAIRED,
    ),
    Patch(
        "vllm.triton_utils.dispatcher:_rebind_kernels",
        "ninfer_patches.sampling_cpu:rebind_beside_numba",
        why="on a CPU the host does not start in a process that has loaded numba, as guides and the native engine do",
        keeps="everything",
        remove_when="the host reads no attributes of other packages' objects",
    ),
)
