"""Random regular expressions: the same one in ECMAScript's syntax, as this product reads it, and in Python's."""

from __future__ import annotations

import random
from dataclasses import dataclass

WHITE = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
ATOMS = (
    *((char, char) for char in "aaabbbcé漢😀_0 "),
    (".", "[^\\n\\r\\u2028\\u2029]"),
    ("\\d", "[0-9]"),
    ("\\D", "[^0-9]"),
    ("\\w", "[0-9A-Za-z_]"),
    ("\\W", "[^0-9A-Za-z_]"),
    ("\\s", f"[{WHITE}]"),
    ("\\S", f"[^{WHITE}]"),
    ("[ab]", "[ab]"),
    ("[^a]", "[^a]"),
    ("[^]", "[\\u0000-\\U0010ffff]"),
    ("[à-ÿ]", "[à-ÿ]"),
    ("[߿-ࠁ]", "[߿-ࠁ]"),
    ("[\uffff-𐀁]", "[\uffff-\U00010001]"),
    ("[^😀é]", "[^😀é]"),
    ("[a-c\\s]", f"[a-c{WHITE}]"),
    ("\\u2028", "\\u2028"),
    ("\\x41", "A"),
    ("\\.", "\\."),
    ("", ""),
)
REPEATS = ("*", "+", "?", "*?", "+?", "{0}", "{2}", "{1,}", "{0,2}", "{1,3}")
CHARS = "aaaabbbbcé漢😀_0 \nA.\u2028߿ࠀࠁ\ud7ff\ue000\uffff𐀀\U0010ffff"


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression in both syntaxes."""

    ours: str
    theirs: str


def expression(rng: random.Random, size: int = 6, *, atoms: tuple[tuple[str, str], ...] = ATOMS) -> Expression:
    """An expression of at most `size` atoms."""
    if size <= 1:
        return Expression(*rng.choice(atoms))
    kind = rng.randrange(5)
    if kind == 0:
        inner = expression(rng, size - 1, atoms=atoms)
        repeat = rng.choice(REPEATS)
        return Expression(f"(?:{inner.ours}){repeat}", f"(?:{inner.theirs}){repeat}")
    left_size = rng.randrange(1, size)
    left, right = expression(rng, left_size, atoms=atoms), expression(rng, size - left_size, atoms=atoms)
    if kind == 1:
        return Expression(f"(?:{left.ours}|{right.ours})", f"(?:{left.theirs}|{right.theirs})")
    return Expression(left.ours + right.ours, left.theirs + right.theirs)


def anchored(rng: random.Random, size: int = 5) -> Expression:
    """An expression for search: top-level branches, each anchored at none, one or both of its ends."""
    ours, theirs = [], []
    for _ in range(rng.randrange(1, 4)):
        branch = expression(rng, size)
        start, end = rng.choice(("", "^")), rng.choice(("", "$"))
        ours.append(start + branch.ours + end)
        theirs.append(("\\A" if start else "") + branch.theirs + ("\\Z" if end else ""))
    return Expression("|".join(ours), "|".join(theirs))


def text(rng: random.Random, max_chars: int = 6) -> str:
    """A short text of characters that the expressions are about, and of those at the borders of encoded lengths."""
    return "".join(rng.choice(CHARS) for _ in range(rng.randrange(max_chars + 1)))
