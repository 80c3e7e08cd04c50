"""Every patch, in the order a request meets them."""

from __future__ import annotations

from ninfer_patches.patch import Patch
from ninfer_patches.protocol_patches import PROTOCOLS
from ninfer_patches.sampling_device_patches import SAMPLING_ON_DEVICE
from ninfer_patches.sampling_patches import SAMPLING

UNTIL_EXTENSION_POINT = "the host offers an extension point for it"

OFFER = (
    Patch(
        "vllm.engine.arg_utils:EngineArgs.add_cli_args",
        "ninfer_patches.command_line:add_cli_args",
        why="`--plugin` and the plugin's start options belong to `vllm serve`",
        keeps="every option of the host",
        remove_when="general plugins can add options",
    ),
    Patch(
        "vllm.engine.arg_utils:EngineArgs.from_cli_args",
        "ninfer_patches.command_line:from_cli_args",
        why="carries the plugin's options into `additional_config`",
        keeps="everything, unless `--plugin ninfer` is given",
        remove_when="general plugins can add options",
    ),
    Patch(
        "vllm.engine.arg_utils:EngineArgs.create_engine_config",
        "ninfer_patches.command_line:create_engine_config",
        why="`additional_config` selects the plugin for one engine, and its options are checked at start",
        keeps="everything, unless the plugin is selected",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
)

SELECTED = (
    Patch(
        "vllm.entrypoints.common.offline:OfflineInferenceMixin._preprocess_chat_one",
        "ninfer_patches.entries:mark_chat_prompt",
        why="a chat turn starts behind its thinking frame or its existing content, a raw prompt not (GEN-7, CON-1)",
        keeps="the rendered prompt",
        remove_when="requests say whether they continue a chat",
    ),
    Patch(
        "vllm.entrypoints.generate.beam_search.offline:BeamSearchOfflineMixin.beam_search",
        "ninfer_patches.entries:without_constraint",
        why="beam search under a constraint is refused, not run on another back end (REQ-7)",
        keeps="beam search without a constraint",
        remove_when="beam search goes through the structured-output manager",
    ),
    Patch(
        "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest.to_sampling_params",
        "ninfer_patches.serving:to_sampling_params",
        why="the parameters carry the prepared constraint; what contradicts it is refused before a stream (REQ-7)",
        keeps="requests without a constraint",
        remove_when="the host validates constraints asynchronously before it answers",
    ),
    Patch(
        "vllm.entrypoints.openai.chat_completion.serving:OpenAIServingChat.create_chat_completion",
        "ninfer_patches.serving:create_with_constraint",
        why="checks and lowers the constraint off the event loop, before a status is sent (ERR-2, CMP-7)",
        keeps="requests without a constraint",
        remove_when="the host validates constraints asynchronously before it answers",
    ),
    Patch(
        "vllm.entrypoints.openai.chat_completion.serving:OpenAIServingChat.chat_completion_full_generator",
        "ninfer_patches.serving:full_chat_response",
        why="adds the constraint record and typed row failures (OBS-2, ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.entrypoints.openai.chat_completion.serving:OpenAIServingChat.chat_completion_stream_generator",
        "ninfer_patches.serving:streamed_chat_response",
        why="adds the constraint record to the last chunk, and typed row failures (OBS-2, ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.entrypoints.openai.completion.serving:OpenAIServingCompletion.create_completion",
        "ninfer_patches.serving:create_with_constraint",
        why="as for chat completions",
        keeps="requests without a constraint",
        remove_when="the host validates constraints asynchronously before it answers",
    ),
    Patch(
        "vllm.entrypoints.openai.completion.serving:OpenAIServingCompletion.request_output_to_completion_response",
        "ninfer_patches.serving:full_completion_response",
        why="adds the constraint record and typed row failures (OBS-2, ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.entrypoints.openai.completion.serving:OpenAIServingCompletion.completion_stream_generator",
        "ninfer_patches.serving:streamed_completion_response",
        why="adds the constraint record to the last chunk, and typed row failures (OBS-2, ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.entrypoints.generate.base.serving:GenerateBaseServing.create_streaming_error_response",
        "ninfer_patches.serving:streaming_error",
        why="an error event carries our code and place (ERR-5)",
        keeps="every other error",
        remove_when="the host's error body takes a code and extra members",
    ),
    Patch(
        "vllm.entrypoints.launchers.app:init_exception_handler",
        "ninfer_patches.serving:init_exception_handler",
        source="vllm.entrypoints.serve.exception_handling.register:init_exception_handler",
        why="our errors keep their code, place and status in each protocol's body (ERR-2)",
        keeps="every other error",
        remove_when="the host's error body takes a code and extra members",
    ),
    Patch(
        "vllm.plugins:load_endpoint_plugins",
        "ninfer_patches.endpoints:load_endpoint_plugins",
        why="the endpoints under /ninfer exist however the plugin was selected (API-7)",
        keeps="the endpoints of other plugins",
        remove_when="a selected general plugin can bring its endpoints",
    ),
    Patch(
        "vllm.v1.engine.input_processor:InputProcessor.__init__",
        "ninfer_patches.requests:create_preparer",
        why="gives the API process what it needs to prepare constraints",
        keeps="everything",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.v1.engine.input_processor:InputProcessor.process_inputs",
        "ninfer_patches.requests:process_inputs",
        why="a constrained request carries its lowered grammar to the engine core, or is refused here",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        "vllm.v1.engine.input_processor:InputProcessor.process_inputs",
        "ninfer_patches.metrics:count_refusals",
        why="counts refused constraints by code (OBS-3)",
        keeps="everything",
        remove_when="the host counts refused requests by code",
    ),
    Patch(
        "vllm.sampling_params:SamplingParams._validate_structured_outputs",
        "ninfer_patches.requests:validate_structured_outputs",
        why="the host's back ends must not judge constraints that they do not run",
        keeps="engines without the plugin",
        remove_when="structured-output back ends are pluggable",
    ),
    Patch(
        "vllm.v1.engine.core:StructuredOutputManager",
        "ninfer_patches.engine_core:choose_manager",
        source="vllm.v1.structured_output:StructuredOutputManager",
        why="sessions, masks that leave drafts untouched, compilation under our rules (SES, MSK, SPC-3)",
        keeps="engines without the plugin",
        remove_when="structured-output back ends are pluggable",
    ),
    Patch(
        "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        "ninfer_patches.engine_core:update_from_output",
        why="previews tokens, fails dead-ending rows alone, attaches records (ERR-4, ENG-3)",
        keeps="unconstrained rows",
        remove_when="the host fails a row without tokens by itself",
    ),
    Patch(
        "vllm.v1.core.sched.scheduler:Scheduler._free_request",
        "ninfer_patches.engine_core:free_request",
        why="a session ends with its request, aborted ones included (ENG-4)",
        keeps="everything",
        remove_when="structured-output back ends are told when a request ends",
    ),
    Patch(
        "vllm.v1.engine.output_processor:OutputProcessor.process_outputs",
        "ninfer_patches.outputs:process_outputs",
        why="takes the record out of the carrier field (OBS-1)",
        keeps="outputs without a record",
        remove_when="engine core outputs take extra members",
    ),
    Patch(
        "vllm.v1.engine.output_processor:RequestState._new_completion_output",
        "ninfer_patches.outputs:new_completion_output",
        why="puts the record on the sample's output (API-2, OBS-1)",
        keeps="outputs without a record",
        remove_when="engine core outputs take extra members",
    ),
    Patch(
        "vllm.v1.engine.output_processor:RequestState",
        "ninfer_patches.outputs:with_room_for_record",
        source="vllm.v1.engine.output_processor:RequestState.__init__",
        why="room for the record while a sample ends",
        keeps="everything",
        remove_when="engine core outputs take extra members",
    ),
    Patch(
        "vllm.outputs:RequestOutput.add",
        "ninfer_patches.outputs:add_result",
        why="a record is kept where the host merges results that a slow consumer has not taken yet",
        keeps="everything",
        remove_when="outputs take extra members",
    ),
    Patch(
        "vllm.outputs:CompletionOutput",
        "ninfer_patches.outputs:with_record_members",
        why="every output has `constraint` and `constraint_error`, None where no constraint was active",
        keeps="everything",
        remove_when="outputs take extra members",
    ),
    *PROTOCOLS,
    *SAMPLING,
    *SAMPLING_ON_DEVICE,
)

ALL = OFFER + SELECTED
