"""Records what a running vLLM decides at every decoding step into a Stepscope capture.

Nothing happens unless the environment variable `STEPSCOPE_CAPTURE` names a folder; see `settings`.
"""

__version__ = "0.1.0"

FORMAT_VERSION = 2
"""The version of the capture format that is written (docs/capture-format.md)."""
