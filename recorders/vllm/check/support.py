"""What the live checks share: running, recording, reading captures, replaying them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
from mcap.reader import make_reader

HERE = Path(__file__).resolve().parent


def run(command: list[Any], **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end and keeps what it says."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)


def record(captures: Path, name: str, command: list[Any], variables: dict[str, str]) -> tuple[Path | None, str]:
    """Runs a program of this folder with the recorder on. Gives the one capture there must be, and what was printed."""
    folder = captures / name
    for old in folder.glob("*"):
        old.unlink()
    environment = {**os.environ, "STEPSCOPE_CAPTURE": str(folder), **variables}
    done = run([sys.executable, *command], env=environment)
    (captures / f"{name}.log").write_text(done.stdout + done.stderr)
    found = list(folder.glob("*.mcap"))
    if done.returncode != 0 or len(found) != 1:
        print(f"{name}: status {done.returncode}, captures {[path.name for path in folder.glob('*')]}")
        return None, done.stdout
    return found[0], done.stdout


def read(path: Path) -> dict[str, list[dict[str, Any]]]:
    """A capture's records, but for masks and payloads."""
    found: dict[str, list[dict[str, Any]]] = {"header": [], "step": [], "event": [], "loss": [], "request": []}
    with open(path, "rb") as stream:
        for _, channel, message in make_reader(stream).iter_messages(log_time_order=False):
            if channel.topic in found:
                found[channel.topic].append(msgpack.unpackb(message.data))
    return found


def replay(stepscope: str, path: Path) -> dict[str, Any]:
    """What `stepscope replay` says."""
    done = run([stepscope, "replay", "--json", path])
    if done.returncode == 2 or not done.stdout:
        raise SystemExit(f"{path}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def verify(stepscope: str, path: Path) -> list[str]:
    """What `stepscope verify` has against a capture, whole or not."""
    done = run([stepscope, "verify", path])
    return [f"verify: {done.stdout.strip().splitlines()[-3:]}"] if done.returncode != 0 else []
