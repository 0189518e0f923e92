"""A driver that drives nothing: interpreted kernels are Python."""

from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase


class InterpretedDriver(DriverBase):
    """What vLLM and Triton ask of a driver before they interpret."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", 0, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self) -> Any:
        return lambda *_, **__: [0.0]

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: Any) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cpu
