"""From worker processes to the process of the scheduler, which writes the capture.

A worker finds the socket through an environment variable that its parent set before it was started. Messages are
MessagePack with their length before them; nothing that arrives is ever executed.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import struct
import tempfile
import threading
from typing import Any, Callable

import msgpack

logger = logging.getLogger("stepscope_vllm")

VARIABLE = "STEPSCOPE_LINK"
MOST_BYTES = 1 << 30
MOST_UNSENT = 16
MOST_PATH_BYTES = 100


class Address:
    """Where this process would listen, and where its parent does."""

    def __init__(self) -> None:
        self.parent: str | None = None
        self.own = ""
        self.renew()
        # A forked child is a new place in the tree of processes, but runs no plugin's start again.
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Takes what was inherited for the parent's address, and hands a new one down."""
        self.parent = os.environ.get(VARIABLE)
        name = f"stepscope-{os.getpid()}-{secrets.token_hex(4)}.sock"
        self.own = os.path.join(tempfile.gettempdir(), name)
        if len(os.fsencode(self.own)) > MOST_PATH_BYTES:
            self.own = os.path.join("/tmp", name)
        os.environ[VARIABLE] = self.own


class Listener:
    """The scheduler's end."""

    def __init__(self, path: str, receive: Callable[[dict[str, Any]], None]) -> None:
        self._path = path
        self._receive = receive
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self._socket.bind(path)
        finally:
            os.umask(before)
        self._socket.listen()
        threading.Thread(target=self._accept, name="stepscope-link", daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        try:
            # Closing alone does not wake the thread that accepts.
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
        try:
            os.unlink(self._path)
        except OSError:
            pass

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), name="stepscope-link", daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while header := stream.read(4):
                    (length,) = struct.unpack("<I", header)
                    if length > MOST_BYTES:
                        raise ValueError(f"a message of {length} bytes")
                    self._receive(msgpack.unpackb(stream.read(length), strict_map_key=False))
        except Exception:
            logger.exception("stepscope: the link from a worker broke")


class Sender:
    """A worker's end. Connects when there is something to send: the scheduler starts after its workers."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._unsent: list[bytes] = []
        self._warned = False

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message, and before it those that could not be sent when they came."""
        data = msgpack.packb(message)
        self._unsent.append(struct.pack("<I", len(data)) + data)
        try:
            connection = self._connect()
            while self._unsent:
                connection.sendall(self._unsent[0])
                del self._unsent[0]
        except OSError as error:
            self._socket = None
            if len(self._unsent) > MOST_UNSENT:
                del self._unsent[0]
                if not self._warned:
                    self._warned = True
                    logger.warning("stepscope: rows do not reach the capture: %s", error)

    def _connect(self) -> socket.socket:
        if self._socket is None:
            if self._path is None:
                raise ConnectionError("the parent process named no socket")
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(self._path)
            self._socket = connection
        return self._socket
