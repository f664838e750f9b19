"""Graph IR: ops over logical tensors, from the parsed model to loop nests. Its floors, lower never importing higher:
ir, text, ops, rewriting, schedule, templates, passes, lowering, inspect. The ops are loaded when one is first made.

May import: tensor_ir, base.
"""

from .ir import registry


def _load_ops() -> None:
    from . import ops  # noqa: F401


registry.load_with(_load_ops)
