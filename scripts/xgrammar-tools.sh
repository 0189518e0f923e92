#!/usr/bin/env bash
# Has what the crate `xgrammar` is built with: cmake, and a compiler by the name of clang++. Prints the folder for PATH.
#
# Everything goes into a cache folder; nothing of the system is changed but for g++, which apt-get installs where it is missing.
set -euo pipefail
tools="${XDG_CACHE_HOME:-$HOME/.cache}/stepscope/xgrammar-tools"
mkdir -p "$tools/bin"
if ! command -v g++ >/dev/null; then
  echo "installing g++, which XGrammar is compiled with" >&2
  apt-get install --yes --quiet g++ >&2
fi
# The crate asks for clang++ and has it optimize at link time; Rust's linker does not read what g++ leaves for that.
cat >"$tools/bin/clang++" <<'WRAPPER'
#!/bin/sh
exec g++ "$@" -fno-lto
WRAPPER
chmod +x "$tools/bin/clang++"
if ! command -v cmake >/dev/null && [ ! -x "$tools/bin/cmake" ]; then
  echo "installing cmake from PyPI into $tools" >&2
  python3 -m pip install --quiet --disable-pip-version-check --target "$tools/python" 'cmake>=3.18' >&2
  ln -sf "$tools/python/cmake/data/bin/cmake" "$tools/bin/cmake"
fi
echo "$tools/bin"
