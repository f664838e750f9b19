"""Names of a model, its tensors and its dimensions as identifiers of C and C++."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable

from ..base.errors import UserError

MAX_LETTERS = 63
"""Significant letters of an identifier in C99 (5.2.4.1)."""

_KEYWORD_LINES = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const",
    "consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do",
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable",
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public register",
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch",
    "template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using",
    "virtual void volatile wchar_t while xor xor_eq",
)
_MACRO_LINES = ("EOF NULL errno i386 linux stderr stdin stdout unix",)
"""Macros of usual headers, and of GNU compilers."""

_RESERVED = frozenset(word for line in (*_KEYWORD_LINES, *_MACRO_LINES) for word in line.split())
_OF_STDINT = re.compile(r"u?int(_least|_fast|max|ptr)?\d*_t|[A-Z0-9_]+_(MIN|MAX|C)")

_HEADER_LINES = (
    "aio alloca assert complex cpio ctype dirent elf endian errno fcntl features fenv float fnmatch ftw glob grp iconv",
    "inttypes iso646 langinfo libgen limits link locale malloc math memory monetary mqueue netdb poll pthread pwd",
    "regex sched search semaphore setjmp signal spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint",
    "stdio stdlib stdnoreturn string strings syslog tar termios tgmath threads time uchar ucontext ulimit unistd",
    "utime utmpx values wchar wctype wordexp",
)
_HEADERS = frozenset(word for line in _HEADER_LINES for word in line.split())
"""Names of C's and POSIX' own headers, which a header of a model must not hide."""


def identifier(text: str) -> str:
    """Return a text as an identifier: other letters become underscores, and one is appended to a reserved word."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", _plain(text))[:MAX_LETTERS].strip("_")
    if not name or name[0].isdigit():
        name = f"x{name}"
    return f"{name}_" if name in _RESERVED or _OF_STDINT.fullmatch(name) else name


def _plain(text: str) -> str:
    """A text without the accents of its letters."""
    return re.sub(r"[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text))


def header_name(stem: str) -> str:
    """Return the name of the header beside a library, which is none of C's or POSIX' own headers."""
    return f"{stem}_model.h" if stem in _HEADERS else f"{stem}.h"


def prefix_of(name: str) -> str:
    """Return the prefix of a model's functions, which names the files in its folder too.

    Names that differ in letters of other scripts get different prefixes: such letters become a hash at the end.
    """
    prefix = identifier(name)
    if re.search(r"[^\W\x00-\x7f]|[\ud800-\udfff]", _plain(name)):
        digest = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()
        stem = prefix if re.search("[A-Za-z0-9]", _plain(name)) else "model"
        prefix = f"{stem[: MAX_LETTERS - 9].rstrip('_')}_{digest[:8]}"
    is_taken = prefix.endswith("_") or prefix in _HEADERS
    return f"{prefix.rstrip('_')}_model" if is_taken else prefix


def identifiers(texts: Iterable[str]) -> list[str]:
    """Return texts as different identifiers."""
    found: dict[str, None] = {}
    for text in texts:
        name, number = identifier(text), 2
        stem = name
        while name in found:
            name, number = f"{stem}_{number}", number + 1
        found[name] = None
    return list(found)


def checked_prefix(name: str) -> str:
    """Return a prefix that a user gave. Raise UserError if it is not an identifier."""
    if identifier(name) != name:
        raise UserError(
            f"the prefix must be an identifier of C such as '{identifier(name)}', got '{name}'"
        )
    return name
