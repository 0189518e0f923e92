"""A compiler that compiles nothing."""

from typing import Any

from triton.backends.compiler import BaseBackend


class InterpretedBackend(BaseBackend):
    """What Triton wants to see of a backend."""

    @staticmethod
    def supports_target(target: Any) -> bool:
        return target.backend == "cpu"

    def hash(self) -> str:
        return "interpreted"

    def parse_options(self, options: dict) -> Any:
        return options

    def add_stages(self, stages: dict, options: Any, language: Any = None) -> None:
        return None

    def load_dialects(self, context: Any) -> None:
        return None

    def get_module_map(self) -> dict:
        return {}

    def get_codegen_implementation(self, options: Any = None) -> dict:
        return {}

    def pack_metadata(self, metadata: Any) -> Any:
        return metadata
