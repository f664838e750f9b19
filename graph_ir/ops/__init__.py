"""One file per op family. Importing this package registers the ops.

May import: ir and the rooms below graph_ir; never how ops run.
"""

from ...base.on_demand import load_modules
from ..ir.registry import seal

load_modules(__name__, __path__)
seal()
