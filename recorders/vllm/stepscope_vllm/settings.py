"""What the environment asks of the recorder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping

TIERS = ("topk", "full", "hidden", "off")


class SettingError(ValueError):
    """A variable whose value cannot be used."""


@dataclass(frozen=True)
class Settings:
    """The recorder's settings; every one is an environment variable."""

    folder: Path
    """`STEPSCOPE_CAPTURE`: where captures go. Without it nothing is recorded."""
    tier: str = "topk"
    """`STEPSCOPE_LOGITS`: what is kept of each logits row."""
    top: int = 20
    """`STEPSCOPE_TOPK`: how many values the tier `topk` keeps."""
    statistics: bool = True
    """`STEPSCOPE_STATISTICS`: whether rows get their statistics and checksum."""
    prompts: bool = True
    """`STEPSCOPE_PROMPTS`: whether prompts, constraints and client ids are kept."""
    queue_bytes: int = 256 << 20
    """`STEPSCOPE_QUEUE_MB`: how much may wait for the recorder's thread before payloads are dropped."""
    hash_bytes: int = 2 << 30
    """`STEPSCOPE_HASH_MB`: the largest weights that are hashed when the engine starts."""
    end_seconds: int = 5
    """`STEPSCOPE_END_SECONDS`: how long engines may take to end their captures when a server stops."""
    name: str = "vllm"
    """`STEPSCOPE_NAME`: how the capture's file name begins."""

    @staticmethod
    def read(environment: Mapping[str, str] = os.environ) -> "Settings | None":
        """The settings, or `None` when nothing is to be recorded."""
        folder = environment.get("STEPSCOPE_CAPTURE", "")
        if not folder:
            return None
        tier = environment.get("STEPSCOPE_LOGITS", "topk")
        if tier not in TIERS:
            raise SettingError(f"STEPSCOPE_LOGITS: expected one of {', '.join(TIERS)}, found {tier!r}")
        name = environment.get("STEPSCOPE_NAME", "vllm")
        if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
            raise SettingError(f"STEPSCOPE_NAME: expected letters, digits, '-', '_' and '.', found {name!r}")
        return Settings(
            folder=Path(folder),
            tier=tier,
            top=_count(environment, "STEPSCOPE_TOPK", 20, 1),
            statistics=_switch(environment, "STEPSCOPE_STATISTICS", "on", "off"),
            prompts=_switch(environment, "STEPSCOPE_PROMPTS", "keep", "omit"),
            queue_bytes=_count(environment, "STEPSCOPE_QUEUE_MB", 256, 1) << 20,
            hash_bytes=_count(environment, "STEPSCOPE_HASH_MB", 2048, 0) << 20,
            end_seconds=_count(environment, "STEPSCOPE_END_SECONDS", 5, 0),
            name=name,
        )


def _switch(environment: Mapping[str, str], name: str, yes: str, no: str) -> bool:
    value = environment.get(name, yes)
    if value not in (yes, no):
        raise SettingError(f"{name}: expected {yes} or {no}, found {value!r}")
    return value == yes


def _count(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    value = environment.get(name, str(default))
    if not value.isascii() or not value.isdigit() or int(value) < least:
        raise SettingError(f"{name}: expected a whole number of at least {least}, found {value!r}")
    return int(value)
