"""A folder of a model: the settings in its `config.json`, its weights, and its other files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.file_errors import unreadable
from ...base.records import dataclass
from ..decoder.weights import Weight


@dataclass(frozen=True)
class ModelFolder:
    """A folder of Hugging Face Transformers: `settings` is its `config.json`."""

    path: Path
    settings: dict[str, Any]
    weights: dict[str, Weight]

    def json(self, name: str) -> dict[str, Any]:
        """Return an object in a file of the folder; empty where there is no such file. Raise UserError for a corrupt
        one."""
        return read_json(self.path / name) if (self.path / name).is_file() else {}

    @property
    def context(self) -> int:
        """The largest number of tokens the model was made for."""
        return self.integer("max_position_embeddings")

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a positive integer of the settings. Raise UserError if it is missing or none."""
        value = self.settings.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise self.rule(f"'{name}' must be a positive integer", str(value))
        return value

    @property
    def layers(self) -> int:
        """The number of layers, each of which has tensors."""
        return self._bounded(
            self.integer("num_hidden_layers"), "num_hidden_layers", len(self.weights)
        )

    def size(self, name: str, default: int | None = None) -> int:
        """Return an integer that is part of the sizes of tensors. Raise UserError if it is larger than all of them."""
        dims = (one for tensor in self.weights.values() for one in tensor.dims)
        return self._bounded(self.integer(name, default), name, max(dims, default=0))

    def _bounded(self, value: int, name: str, max_value: int) -> int:
        if value > max_value:
            rule = f"'{name}' must be at most {max_value}, as the tensors are"
            raise self.rule(rule, str(value))
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number of the settings. Raise UserError if it is none."""
        value = self.settings.get(name)
        value = default if value is None else value
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise self.rule(f"'{name}' must be a number", str(value))
        return float(value)

    def rule(self, rule: str, values: str) -> UserError:
        """Return the error for a folder that breaks a rule."""
        text = f"'{self.path}': {rule}, got {values}"
        return UserError(text)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raise UserError for a file that holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        text = f"'{path}': the file must be JSON, got {error}"
        raise UserError(text) from None
    if not isinstance(found, dict):
        text = f"'{path}': the file must be a JSON object, got {type(found).__name__}"
        raise UserError(text)
    return found
