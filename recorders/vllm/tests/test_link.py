"""The link between worker and scheduler."""

import os
import time

from stepscope_vllm.link import VARIABLE, Address, Listener, Sender


def test_messages_arrive_in_order_even_those_from_before_there_was_a_listener(tmp_path):
    path, got = str(tmp_path / "link"), []
    sender = Sender(path)
    sender.send({"kind": "hello"})
    listener = Listener(path, got.append)
    for number in range(3):
        sender.send({"kind": "rows", "step": number, "bytes": b"\0" * 100_000})
    deadline = time.monotonic() + 20
    while len(got) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    listener.close()
    assert [message.get("step") for message in got] == [None, 0, 1, 2]
    assert not os.path.exists(path)


def test_without_anybody_to_listen_little_is_kept():
    sender = Sender(None)
    for number in range(100):
        sender.send({"step": number})
    assert len(sender._unsent) <= 17


def test_a_child_inherits_the_address_of_its_parent(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/tmp/parent.sock")
    address = Address()
    assert address.parent == "/tmp/parent.sock" and os.environ[VARIABLE] == address.own != address.parent


def test_an_address_fits_into_a_socket(monkeypatch, tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    monkeypatch.setenv(VARIABLE, "")
    assert Address().own.startswith("/tmp/stepscope-")
