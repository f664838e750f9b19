"""Graph IR: ops over logical tensors, from the parsed model to loop nests. Its floors, lower never importing higher:
ir, text, ops, rewriting, schedule, templates, passes, lowering, inspect.

May import: tensor_ir, base.
"""
