"""LLVM: the only room that knows it. Emits LLVM IR from Tensor IR, compiles it to objects, brings the thread pool.

May import: tensor_ir, runtime.abi, runtime.artifact, base; llvmlite.
"""
