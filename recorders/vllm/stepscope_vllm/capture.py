"""The capture's file: an MCAP that is readable up to its last whole chunk at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mcap.writer import CompressionType, Writer

from . import FORMAT_VERSION, __version__
from .records import PAYLOADS, TOPICS, encode

_RECORD_BYTES = 512 << 10
_PAYLOAD_BYTES = 2 << 20


class CaptureFile:
    """Writes one capture."""

    def __init__(self, folder: Path, name: str, epoch_ns: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._final, self._partial, self._stream = _create(folder, name)
        self._epoch_ns = epoch_ns
        # Chunks end where this class says: rows and records do not share one.
        self._writer = Writer(
            self._stream, chunk_size=1 << 40, compression=CompressionType.ZSTD, enable_data_crcs=True
        )
        self._writer.start(profile="stepscope", library=f"stepscope-vllm {__version__}")
        self._channels: dict[str, int] = {}
        for topic, kind in TOPICS.items():
            schema = self._writer.register_schema(f"stepscope.{kind}", "stepscope", str(FORMAT_VERSION).encode())
            self._channels[topic] = self._writer.register_channel(topic, "msgpack", schema)
        self._sequences = dict.fromkeys(TOPICS, 0)
        self._waiting: dict[bool, list[tuple[str, int, bytes]]] = {False: [], True: []}
        self._waiting_bytes = {False: 0, True: 0}

    @property
    def path(self) -> Path:
        """Where the capture is, or will be when it is finished."""
        return self._final

    def write(self, topic: str, record: dict[str, Any], time_ns: int) -> None:
        """Writes a message; `time_ns` counts from the capture's epoch."""
        data = encode(record)
        payload = topic in PAYLOADS
        self._waiting[payload].append((topic, self._epoch_ns + time_ns, data))
        self._waiting_bytes[payload] += len(data)
        if self._waiting_bytes[payload] >= (_PAYLOAD_BYTES if payload else _RECORD_BYTES):
            self._end_chunk(payload)

    def flush(self) -> None:
        """Ends the chunks, so that everything so far can be read."""
        self._end_chunk(False)
        self._end_chunk(True)

    def finish(self) -> None:
        """Ends the capture and gives it its final name."""
        self.flush()
        self._writer.finish()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        # A link fails where a rename would replace.
        os.link(self._partial, self._final)
        os.unlink(self._partial)

    def _end_chunk(self, payload: bool) -> None:
        for topic, time, data in self._waiting[payload]:
            self._sequences[topic] += 1
            self._writer.add_message(
                self._channels[topic], log_time=time, data=data, publish_time=time, sequence=self._sequences[topic]
            )
        self._waiting[payload].clear()
        self._waiting_bytes[payload] = 0
        self._writer.flush()


def _create(folder: Path, name: str) -> tuple[Path, Path, Any]:
    for number in range(10_000):
        stem = name if number == 0 else f"{name}-{number}"
        final, partial = folder / f"{stem}.mcap", folder / f"{stem}.mcap.partial"
        if final.exists():
            continue
        try:
            return final, partial, open(partial, "xb")
        except FileExistsError:
            continue
    raise FileExistsError(f"{folder}: 10,000 captures named {name} are here already; name another folder")
