"""Graph IR: ops over logical tensors, their layouts, passes, loop templates and NumPy references."""
