"""The compile cache of the user, for the commands, and the facts that they print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.errors import UserError

if TYPE_CHECKING:
    from ...driver.cache_upkeep import Contents
    from ...driver.compile_cache import CompileCache


def opened_cache() -> CompileCache:
    """Return the cache. Raise UserError if it is turned off."""
    from ...driver.compile_cache import default_cache

    found = default_cache()
    if found is None:
        raise UserError(
            "the compile cache is off: GRAPHC_CACHE_DIR is empty; unset it, or name a folder in it"
        )
    return found


def facts_of(cache: CompileCache, held: Contents) -> dict[str, Any]:
    """Return the numbers of a cache's contents, without its models."""
    from ...driver.cache_upkeep import LIMIT_BYTES

    return {
        "folder": str(cache.folder), "limit_bytes": LIMIT_BYTES, "bytes": held.size_bytes,
        "kernels": held.kernels, "kernel_bytes": held.kernel_bytes,
        "weights": held.weights, "weight_bytes": held.weight_bytes,
    }  # fmt: skip


def summary_of(cache: CompileCache, held: Contents) -> str:
    """Return the numbers as a sentence."""
    facts = facts_of(cache, held)
    return (
        f"{len(held.models)} models, {held.kernels} kernels ({held.kernel_bytes / 1e6:.1f} MB) and "
        f"{held.weights} weights ({held.weight_bytes / 1e6:.1f} MB), "
        f"{held.size_bytes / 1e6:.1f} of {facts['limit_bytes'] / 1e6:.0f} MB, in {cache.folder}"
    )
