"""Compiled models as native libraries for C and C++ programs, written without a compiler or linker."""
