"""A clean Dynamo for each test, where torch is installed. Importing this skips the module where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No code of Dynamo's from another test, and no gradients."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    torch._dynamo.reset()
