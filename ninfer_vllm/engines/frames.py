"""What an engine and its compile process say to each other: typed messages, each after its length."""

from __future__ import annotations

import struct
from typing import BinaryIO

import msgspec

from ninfer_vllm import errors
from ninfer_vllm.errors import CompileFailed, NInferError

LENGTH = struct.Struct("<Q")


class Setup(msgspec.Struct, tag=True, frozen=True):
    """The vocabulary and the memory a build may take; sent once, before the first build."""

    spellings: tuple[bytes, ...]
    classes: bytes
    memory_bytes: int


class Build(msgspec.Struct, tag=True, frozen=True):
    """A grammar to compile, as `grammar.wire` encodes it."""

    grammar: bytes


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The vocabulary has been read."""


class Harmless(msgspec.Struct, tag=True, frozen=True):
    """A grammar that the engine may compile itself, as the text the core reads."""

    text: str
    retires: bool
    """Whether the process has grown so much that it should be replaced."""


class Built(msgspec.Struct, tag=True, frozen=True):
    """A compiled grammar in the core's own serialised form."""

    compiled: str
    retires: bool


class Failed(msgspec.Struct, tag=True, frozen=True):
    """A build that ended in one of our typed errors: its class and its fields."""

    error: str
    facts: tuple[str | int | float | None, ...]

    @classmethod
    def of(cls, error: NInferError) -> Failed:
        """The message of an error."""
        return cls(type(error).__name__, error.__reduce__()[1])

    def exception(self) -> NInferError:
        """The error of the message."""
        known = vars(errors).get(self.error)
        if not (isinstance(known, type) and issubclass(known, NInferError)):
            return CompileFailed(f"unknown error {self.error}")
        return known(*self.facts)


Message = Setup | Build | Ready | Harmless | Built | Failed

_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def pack(message: Message) -> bytes:
    """A message with its length before it."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes | bytearray) -> Message:
    """The message of a frame's body."""
    return _DECODER.decode(body)


def read(source: BinaryIO) -> Message | None:
    """The next message of a blocking stream; None at its end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = source.read(length)
    return unpack(body) if len(body) == length else None
