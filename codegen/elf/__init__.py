"""ELF files without a linker: objects read, merged into one, and written as objects, shared libraries and archives.

64-bit little-endian ELF with explicit addends, position independent, with the small code model, as LLVM makes it.
"""
