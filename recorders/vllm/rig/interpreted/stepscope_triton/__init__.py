"""Makes Triton believe in a CPU backend, so that its interpreter (`TRITON_INTERPRET=1`) can run the kernels of vLLM's
newer model runner on a machine without a GPU. Put `interpreted/` on `PYTHONPATH` for such a run alone: vLLM takes the
entry point for a working Triton."""
