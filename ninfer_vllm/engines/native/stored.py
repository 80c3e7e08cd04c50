"""Tries kept on disk, beside the machine code: a later process reads arrays instead of sorting a vocabulary.

Theory of operation. A file is named by a digest of everything it was made from and carries a digest of what it holds.
It is written under another name and renamed, so that a reader sees all of it or none. Whatever is wrong with a file or
its folder (absent, read-only, cut short, foreign) means only that the trie is built anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np

from ninfer_vllm.engines.native.arrays import Ints, Octets
from ninfer_vllm.engines.native.compiled import code_folder
from ninfer_vllm.vocabulary import Vocabulary

LAYOUT = b"ninfer trie 1"
"""Changes whenever the arrays or how they are made do."""

DIGEST_BYTES = 32
StoredArrays = tuple[Octets, Ints, Ints, Ints, Ints]
"""The arrays `byte`, `depth`, `end`, `first` and `tokens` of a `Trie`."""

TYPES = (np.uint8, np.int32, np.int32, np.int32, np.int32)
"""Of the arrays of `Trie`, in order."""


def content_key(vocabulary: Vocabulary) -> str:
    """A digest of what a trie is made from: spellings, their lengths, and the classes of all tokens."""
    lengths = np.fromiter(map(len, vocabulary.spellings), np.int32, len(vocabulary))
    digest = hashlib.sha256(LAYOUT)
    for part in (lengths.tobytes(), vocabulary.classes, b"".join(vocabulary.spellings)):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def stored_arrays(key: str) -> StoredArrays | None:
    """The arrays of a trie, where a whole and unharmed file of that key is there."""
    path = _path(key)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[DIGEST_BYTES:]
    sizes = 8 * len(TYPES)
    if len(body) < sizes or hashlib.sha256(body).digest() != data[:DIGEST_BYTES]:
        return None
    found = []
    at = sizes
    for size, kind in zip(np.frombuffer(body[:sizes], np.int64).tolist(), TYPES, strict=True):
        end = at + size * np.dtype(kind).itemsize
        # Machine code takes arrays that can be written, which those over `bytes` cannot.
        found.append(np.frombuffer(body[at:end], kind).copy())
        at = end
    byte, depth, end_of, first, tokens = found
    return byte, depth, end_of, first, tokens


def store_arrays(key: str, arrays: StoredArrays) -> None:
    """Keep the arrays of a trie, where the folder can be written."""
    path = _path(key)
    if path is None:
        return
    sizes = np.array([len(array) for array in arrays], np.int64).tobytes()
    body = b"".join((sizes, *(array.tobytes() for array in arrays)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(partial).replace(path)
    except OSError:
        Path(partial).unlink(missing_ok=True)


def _path(key: str) -> Path | None:
    folder = code_folder()
    return None if folder is None else folder / f"trie-{key}.bin"
