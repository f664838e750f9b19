"""One file per op family. Importing this package registers the ops.

May import: ir and the rooms below graph_ir; never how ops run.
"""

from importlib import import_module
from pkgutil import iter_modules

from ..ir.registry import seal

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
seal()
