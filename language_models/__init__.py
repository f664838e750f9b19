"""Language models: from a GGUF file or a folder of Hugging Face Transformers to tokens.

model = graphc.llm.load("model.gguf")
for text in model.generate("Once upon a time", max_tokens=64, stream=True):
    print(text, end="")
"""

from .model import LanguageModel, load
from .sampling import Sampling

__all__ = ["LanguageModel", "Sampling", "load"]
