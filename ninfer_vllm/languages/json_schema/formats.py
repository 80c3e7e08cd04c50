"""The values of `format` as regular languages, each that of its RFC (JSX-1)."""

from __future__ import annotations

from fractions import Fraction

from ninfer_vllm.automata.dfa import Dfa
from ninfer_vllm.automata.expressions import fullmatch_dfa
from ninfer_vllm.automata.lengths import limited
from ninfer_vllm.automata.work import uncounted
from ninfer_vllm.languages.json_schema.schema import Bound


def _any_of(*parts: str) -> str:
    return f"(?:{'|'.join(parts)})"


# RFC 3339, section 5.6, with the lower-case letters it allows. Year 0000 and leap seconds are left out: common
# validators and date types know neither.
_YEAR = _any_of(r"\d{3}[1-9]", r"\d{2}[1-9]\d", r"\d[1-9]\d{2}", r"[1-9]\d{3}")
_FOURS = _any_of("0[48]", "[2468][048]", "[13579][26]")
_LEAP_YEAR = _any_of(rf"\d\d{_FOURS}", f"{_FOURS}00")
_COMMON_DAY = _any_of(
    r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])", r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)", r"02-(?:0[1-9]|1\d|2[0-8])"
)
_DATE = _any_of(f"{_YEAR}-{_COMMON_DAY}", f"{_LEAP_YEAR}-02-29")
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_TIME = rf"{_CLOCK}:[0-5]\d(?:\.\d+)?(?:[Zz]|[+\-]{_CLOCK})"

# RFC 3339, appendix A.
_SECONDS = r"\d+S"
_MINUTES = rf"\d+M(?:{_SECONDS})?"
_HOURS = rf"\d+H(?:{_MINUTES})?"
_DAYS = r"\d+D"
_MONTHS = rf"\d+M(?:{_DAYS})?"
_YEARS = rf"\d+Y(?:{_MONTHS})?"
_CLOCK_TIME = f"T{_any_of(_HOURS, _MINUTES, _SECONDS)}"
_DURATION = f"P{_any_of(f'{_any_of(_DAYS, _MONTHS, _YEARS)}(?:{_CLOCK_TIME})?', _CLOCK_TIME, r'[0-9]+W')}"

# RFC 2673, section 3.2, and RFC 4291, section 2.2.
_IPV4 = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}"
_GROUP = "[0-9A-Fa-f]{1,4}"
IPV6_GROUPS = 8


def _groups(count: int) -> str:
    """So many groups in a row, the last two of which may be written as an IPv4 address."""
    if count == 0:
        return ""
    plain = f"(?:{_GROUP}:){{{count - 1}}}{_GROUP}"
    return plain if count == 1 else _any_of(plain, f"(?:{_GROUP}:){{{count - 2}}}{_IPV4}")


def _ipv6() -> str:
    forms = [_groups(IPV6_GROUPS)]
    for before in range(IPV6_GROUPS):
        left = f"(?:{_GROUP}:){{{before - 1}}}{_GROUP}" if before else ""
        forms.append(f"{left}::{_any_of(*(_groups(after) for after in range(IPV6_GROUPS - before)))}")
    return _any_of(*forms)


_IPV6 = _ipv6()

# RFC 5321, section 4.1.2, in ASCII.
_ATOM = r"[A-Za-z0-9!#$%&'*+\-/=?^_`{|}~]+"
_QUOTED = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
_SUBDOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?"
_ADDRESS = rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_IPV6})\]"
_EMAIL = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_SUBDOMAIN}(?:\.{_SUBDOMAIN})*|{_ADDRESS})"

# RFC 1123, section 2.1, of labels that RFC 5890 does not reserve: no `--` in third and fourth place.
HOST_CHARS, LABEL_CHARS = 253, 63
_ALNUM, _LDH = "[A-Za-z0-9]", r"[A-Za-z0-9\-]"
_LABEL = _any_of(
    f"{_ALNUM}{{1,2}}",
    rf"{_ALNUM}{_LDH}{_ALNUM}",
    rf"{_ALNUM}{_LDH}{_ALNUM}{_LDH}{{0,{LABEL_CHARS - 4}}}{_ALNUM}",
    rf"{_ALNUM}{_LDH}\-{_ALNUM}(?:{_LDH}{{0,{LABEL_CHARS - 5}}}{_ALNUM})?",
)
_HOST = rf"{_LABEL}(?:\.{_LABEL})*"

_HEX = "[0-9A-Fa-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


def _uri(extra: str, private: str) -> tuple[str, str]:
    """URI and URI-reference after RFC 3986, appendix A; with more characters, IRI after RFC 3987."""
    plain = rf"A-Za-z0-9\-._~!$&'()*+,;={extra}"
    escape = f"%{_HEX}{_HEX}"
    segment = rf"(?:[{plain}:@]|{escape})"
    literal = rf"\[(?:{_IPV6}|[Vv]{_HEX}+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
    authority = rf"(?:(?:[{plain}:]|{escape})*@)?(?:{literal}|(?:[{plain}]|{escape})*)(?::\d*)?"
    rooted = f"//{authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
    query = rf"(?:\?(?:[{plain}:@/?{private}]|{escape})*)?"
    tail = rf"{query}(?:#(?:[{plain}:@/?]|{escape})*)?"
    absolute = rf"[A-Za-z][A-Za-z0-9+\-.]*:(?:{rooted}|{segment}+(?:/{segment}*)*|){tail}"
    no_colon = rf"(?:[{plain}@]|{escape})"
    return absolute, _any_of(absolute, f"(?:{rooted}|{no_colon}+(?:/{segment}*)*|){tail}")


_PLANES = "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 0xE))
_UCS = f"\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef{_PLANES}\U000e1000-\U000efffd"
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_URI, _URI_REFERENCE = _uri("", "")
_IRI, _IRI_REFERENCE = _uri(_UCS, _PRIVATE)

# RFC 6570, section 2, with the apostrophe that its errata add.
_LITERAL = rf"(?:[!#$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|%{_HEX}{_HEX})"
_VAR_CHAR = rf"(?:[A-Za-z0-9_]|%{_HEX}{_HEX})"
_VARIABLE = rf"{_VAR_CHAR}(?:\.?{_VAR_CHAR})*(?::[1-9]\d{{0,3}}|\*)?"
_URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"

# RFC 6901, and the relative pointers of draft-bhutton-relative-json-pointer.
_POINTER = "(?:/(?:[^/~]|~[01])*)*"
_RELATIVE_POINTER = rf"(?:0|[1-9]\d*)(?:#|{_POINTER})"

EXPRESSIONS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": _UUID,
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "uri-template": _URI_TEMPLATE,
    "json-pointer": _POINTER,
    "relative-json-pointer": _RELATIVE_POINTER,
}
TEXT_FORMATS = (*EXPRESSIONS, "hostname")

FLOAT_MAX = int((2 - Fraction(1, 2**23)) * 2**127)
DOUBLE_MAX = int((2 - Fraction(1, 2**52)) * 2**1023)
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "float": (-FLOAT_MAX, FLOAT_MAX),
    "double": (-DOUBLE_MAX, DOUBLE_MAX),
}
FORMATS = (*TEXT_FORMATS, *RANGES)
"""The enforced formats."""

NOT_REGULAR = ("regex", "idn-email", "idn-hostname")
"""Formats of the standard that no automaton decides: they are refused, never taken for names that nobody defined."""


@uncounted
def text_automaton(name: str) -> Dfa:
    """The strings of a text format."""
    if name == "hostname":
        return limited(fullmatch_dfa(_HOST), 1, HOST_CHARS)
    return fullmatch_dfa(EXPRESSIONS[name])


def range_bounds(name: str) -> tuple[Bound, Bound]:
    """The limits of a number format."""
    low, high = map(Fraction, RANGES[name])
    return (
        Bound(low, is_lower=True, is_strict=False, is_integer=True),
        Bound(high, is_lower=False, is_strict=False, is_integer=True),
    )
