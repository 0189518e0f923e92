import signal
import subprocess
import sys
import threading

from stepscope_vllm.signals import held_off


def test_a_signal_waits_for_the_block_to_end():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("handled"))
    try:
        with held_off(signal.SIGTERM):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            seen.append("ended")
        assert seen == ["ended", "handled"]
        with held_off(signal.SIGTERM):
            pass
        signal.raise_signal(signal.SIGTERM)
        assert seen == ["ended", "handled", "handled"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_a_handler_the_process_ends_after_the_block():
    program = (
        "import signal\n"
        "from stepscope_vllm.signals import held_off\n"
        "with held_off(signal.SIGTERM):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    print('ended', flush=True)\n"
        "print('went on')\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (-signal.SIGTERM, "ended\n"), process.stderr


def test_on_another_thread_the_block_runs_as_it_is():
    ran = []

    def run():
        with held_off(signal.SIGTERM):
            ran.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ran == [True]
