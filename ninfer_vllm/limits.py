"""Every limit of the product, each with its unit and its reason."""

# Source text
GRAMMAR_TEXT_CHARS = 1 << 20
"""Characters of a GBNF text: larger texts are generated, and belong to another kind of constraint."""

REGEX_CHARS = 64 * 1024
"""Characters of a regular expression (RGX-8)."""

SCHEMA_TEXT_CHARS = 4 << 20
"""Characters of a JSON Schema text: the largest real schema collections stay below 1 Mi."""

CHOICE_LITERALS = 100_000
"""Literals of a choice."""

CHOICE_TOTAL_CHARS = 4 << 20
"""Characters of all literals of a choice together."""

NESTING_DEPTH = 256
"""Nesting of groups, schema nodes and finite values: checked before any recursion (JSC-5, SEC-2)."""

# Reduction
REGULAR_STATES = 65_536
"""States of one automaton, or character positions of one expanded expression (RGX-8, JSC-5)."""

NFA_STATES = 4 * REGULAR_STATES
"""States of one nondeterministic automaton before it is made deterministic: a character is up to four bytes."""

AUTOMATON_STEPS = 4_000_000
"""Members of state sets met in one determinisation, or transitions in one minimisation: a few seconds of work."""

PREPARATION_STEPS = 4_000_000
"""Steps of work on one constraint, each about a microsecond of a loop that can grow: some seconds (CMP-9)."""

GUIDE_STEPS = 1_000_000
"""Steps of work on the complete automaton of one guide: a few seconds (GDE-2)."""

INTERSECTIONS = 16_384
"""Intersections of schema nodes in one reduction (JSC-5)."""

AUTOMATON_LENGTH = 8_192
"""Characters of explicit length that take part in an automaton intersection (JSC-5)."""

MEMBER_SETS = 4_096
"""Sets of an object's declared members that are told apart where any order is allowed: twelve members (JSX-10)."""

MULTIPLE_OF = 10_000
"""The greatest divisor, decimals counted in units of their last place: each remainder is a state (JSX-6)."""

MULTIPLE_STATES = 2_048
"""States of the automata of all divisors of one number together: about as many as a divisor that is prime to ten."""

KEY_CLASSES = 256
"""Classes of undeclared keys of one object that patterns tell apart (JSX-2)."""

UNIQUE_STATES = 4_096
"""Sets of items already used in an array whose items all differ: each is a rule of the grammar (JSX-4)."""

COUNT_STATES = 4_096
"""States of one array whose items are counted: each is a rule of the grammar (JSX-8)."""

CONTAINMENTS = 6
"""Schemas that one array contains: each doubles what an item can be (JSX-8)."""

GRAMMAR_NODES = 1_000_000
"""Expressions of one lowered grammar: bounds memory and the time of every pass."""

REPEAT_BOUND = 2**31 - 1
"""Largest repeat count: the xgrammar core wraps counts at 32 bits without an error."""

# Engine core
GRAMMAR_CACHE_BYTES = 256 << 20
"""Default budget of compiled grammars kept for reuse (CMP-6)."""

COMPILE_TIMEOUT_S = 10.0
"""Default seconds a cold build may take (CMP-9)."""

COLD_BUILDS = 2
"""Cold builds that run at once for one model (CMP-4)."""

COMPILE_MEMORY_BYTES = 2 << 30
"""Memory one cold build may take in its process: the largest real schema measured took a twentieth (CMP-9)."""

COMPILED_GRAMMAR_BYTES = GRAMMAR_CACHE_BYTES
"""Memory of one compiled grammar: what fills the default cache alone is refused."""

WORKER_START_S = 60.0
"""Seconds a compile process may take to start and read the vocabulary, on a busy machine (it takes 0.3)."""

# Native engine
NATIVE_STEPS = 10_000
"""Closing steps of one call of the native engine, two microseconds or so each: 20 times what real schemas need."""

NATIVE_FIRST_STEPS = 200_000
"""Closing steps of a grammar's first state, which is found while compiling and holds up nobody else."""

NATIVE_GRAMMAR_BYTES = 32 << 20
"""Memory of what was found out about one grammar, before it is dropped: everyday schemas stay below 2 Mi."""

NATIVE_TOTAL_BYTES = GRAMMAR_CACHE_BYTES
"""Memory of what was found out about all grammars, before that of those opened longest ago is dropped."""

NATIVE_UNIT_BYTES = 16 << 20
"""Memory of one automaton of free text that grammars share, before a new one takes its place."""

NATIVE_UNITS_BYTES = 64 << 20
"""Memory of all of them, before all are dropped."""

MASK_S = 0.25
"""CPU seconds of one mask in the xgrammar core's trial: a slower one would hold up every request of a batch (ERR-6)."""

CHARACTER_S = 0.025
"""CPU seconds of one accepted character in that trial: a token has several, and a step accepts several tokens."""

# Tests of one's own
TOKEN_READINGS = 100_000
"""Tokens that a probe tries for one text that can be cut in many ways: about a second."""
