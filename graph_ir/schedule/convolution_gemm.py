"""A direct convolution on a machine: all that its cost model and its blockings depend on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dtypes import DType
from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ..nest.convolution_geometry import ConvolutionGeometry
from .context import LowerContext
from .cost import OnMachine


@dataclass(frozen=True)
class ConvolutionGemm(OnMachine):
    """A geometry, the microkernel that multiplies image (A) and weights (B), and the cores that may share the work."""

    geometry: ConvolutionGeometry
    kernel: Microkernel
    target: Target
    threads: int = 1

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of all images."""
        return self.geometry.multiply_adds

    @property
    def alone(self) -> ConvolutionGemm:
        """The same on one core."""
        return ConvolutionGemm(self.geometry, self.kernel, self.target)

    @property
    def steps(self) -> int:
        """Steps of the microkernel over the whole sum: groups of channels, tap by tap."""
        return math.prod(self.geometry.kernel) * self.channels // self.kernel.k_group

    @property
    def channels(self) -> int:
        """Channels in whole groups, as copies of the image hold them."""
        return -(-self.geometry.channels // self.kernel.k_group) * self.kernel.k_group

    @property
    def panel_bytes(self) -> int:
        """Bytes of the weights of one result."""
        return self.steps * self.kernel.k_group * self.kernel.b.size

    @property
    def copied(self) -> DType:
        """The type of copies of the image, where it is converted once for all results."""
        return self.kernel.copied_a

    @property
    def result_holds_sums(self) -> bool:
        """Return whether partial sums may wait in the result; else all terms of a line follow each other."""
        return self.kernel.a == self.kernel.accumulator

    @classmethod
    def of_kernels(
        cls, geometry: ConvolutionGeometry, kernels: Sequence[Microkernel], ctx: LowerContext
    ) -> list[ConvolutionGemm]:
        """Return the convolution with each of several microkernels."""
        return [cls(geometry, x, ctx.target, ctx.options.threads) for x in kernels]
