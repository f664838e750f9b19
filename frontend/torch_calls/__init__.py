"""What calls of PyTorch's functions mean, in whatever form a model has them: for PNNX files and exported programs.

`call.Call` gives the arguments by name; the other modules read what rows of the table cannot express.
"""
