"""One page that shows a compiled model: graph, kernels, roofline, memory, phases, decisions and code."""
