"""Patches of the chat protocols: rendered prompts, the parser that publishes, Responses and Messages."""

from __future__ import annotations

from ninfer_patches.patch import Patch

UNTIL_EXTENSION_POINT = "the host offers an extension point for it"
UNTIL_ASYNC_VALIDATION = "the host validates constraints asynchronously before it answers"
UNTIL_EXTRA_MEMBERS = "the host's responses take extra members"

RESPONSES = "vllm.entrypoints.openai.responses"
MESSAGES = "vllm.entrypoints.anthropic"

PROTOCOLS = (
    Patch(
        "vllm.tool_parsers.abstract_tool_parser:ToolParserManager",
        "ninfer_patches.rendering:with_own_parser",
        source="vllm.tool_parsers.abstract_tool_parser:ToolParserManager.register_lazy_module",
        why="`--tool-call-parser ninfer` names the parser that reads constrained calls",
        keeps="every other parser",
        remove_when="general plugins can register parsers without importing the registry",
    ),
    Patch(
        "vllm.reasoning.abs_reasoning_parsers:ReasoningParserManager",
        "ninfer_patches.rendering:with_own_parser",
        source="vllm.reasoning.abs_reasoning_parsers:ReasoningParserManager.register_lazy_module",
        why="`--reasoning-parser ninfer` names the parser that reads thinking blocks",
        keeps="every other parser",
        remove_when="general plugins can register parsers without importing the registry",
    ),
    Patch(
        "vllm.parser.parser_manager:ParserManager._compose_parser",
        "ninfer_patches.rendering:compose_parser",
        why="one parser reads reasoning, content and calls from token ids (THK-1, THK-8, TOOL-10)",
        keeps="every other parser",
        remove_when="plugins can register a whole parser",
    ),
    Patch(
        "vllm.renderers.online_renderer:OnlineRenderer.preprocess_chat",
        "ninfer_patches.rendering:preprocess_chat",
        why="a chat turn starts behind its thinking frame or its existing content (GEN-7, CON-1, CON-2)",
        keeps="the rendered prompt",
        remove_when="requests say whether they continue a chat",
    ),
    Patch(
        "vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest",
        "ninfer_patches.protocols:with_allowed_tools",
        source="vllm.entrypoints.openai.chat_completion.protocol:ChatCompletionRequest.check_tool_usage",
        why="the tool choice `allowed_tools` (TOOL-14)",
        keeps="every other field and check",
        remove_when="the host knows that tool choice",
    ),
    Patch(
        f"{RESPONSES}.protocol:ResponsesRequest.to_sampling_params",
        "ninfer_patches.serving:to_sampling_params",
        why="the parameters carry the prepared constraint; what contradicts it is refused before a stream (REQ-7)",
        keeps="requests without a constraint",
        remove_when=UNTIL_ASYNC_VALIDATION,
    ),
    Patch(
        f"{RESPONSES}.serving:OpenAIServingResponses.create_responses",
        "ninfer_patches.protocols:create_response",
        why="checks and lowers the constraint off the event loop, before a status is sent (ERR-2, CMP-7)",
        keeps="requests without a constraint",
        remove_when=UNTIL_ASYNC_VALIDATION,
    ),
    Patch(
        f"{RESPONSES}.serving:OpenAIServingResponses.responses_full_generator",
        "ninfer_patches.protocols:full_response",
        why="adds the constraint record and typed row failures (OBS-2, ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTRA_MEMBERS,
    ),
    Patch(
        f"{RESPONSES}.serving:OpenAIServingResponses.responses_stream_generator",
        "ninfer_patches.protocols:streamed_response",
        why="adds typed row failures as error events (ERR-5)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTENSION_POINT,
    ),
    Patch(
        f"{MESSAGES}.serving:AnthropicServingMessages.create_messages",
        "ninfer_patches.protocols:create_message",
        why="our refusals keep their code, place and status (ERR-2)",
        keeps="every other error",
        remove_when="the host's error body takes a code and extra members",
    ),
    Patch(
        f"{MESSAGES}.serving:AnthropicServingMessages.to_chat_completion_request",
        "ninfer_patches.protocols:to_chat_request",
        why="a final assistant message is continued, as the protocol has it (CON-1)",
        keeps="requests without an output format or tools",
        remove_when="the host continues it",
    ),
    Patch(
        f"{MESSAGES}.serving:AnthropicServingMessages.messages_full_converter",
        "ninfer_patches.protocols:full_message",
        why="carries the constraint record over (OBS-2)",
        keeps="requests without a constraint",
        remove_when=UNTIL_EXTRA_MEMBERS,
    ),
    Patch(
        f"{MESSAGES}.serving:AnthropicServingMessages.message_stream_converter",
        "ninfer_patches.protocols:streamed_message",
        why="carries the constraint record and typed errors over (OBS-2, ERR-5)",
        keeps="every other event",
        remove_when=UNTIL_EXTRA_MEMBERS,
    ),
    Patch(
        f"{MESSAGES}.api_router:translate_error_response",
        "ninfer_patches.protocols:message_error",
        why="our refusals keep their code, place and status (ERR-2)",
        keeps="every other error",
        remove_when="the host's error body takes a code and extra members",
    ),
)
