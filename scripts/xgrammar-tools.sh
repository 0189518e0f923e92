#!/usr/bin/env bash
# Has what the crate `xgrammar` is built with: cmake, and a compiler by the name of clang++. Prints the folder for PATH.
#
# Everything goes into a cache folder; nothing of the system is changed but for g++, which apt-get installs where there is no
# compiler and may be asked.
set -euo pipefail
tools="${XDG_CACHE_HOME:-$HOME/.cache}/stepscope/xgrammar-tools"
mkdir -p "$tools/bin"

missing() {
  echo "xgrammar needs $1, which is not there: $2" >&2
  exit 1
}

# A wrapper of an earlier run must not hide the compiler itself.
elsewhere() { PATH=":$PATH:" && PATH="${PATH//:$tools\/bin:/:}" && command -v "$1" >/dev/null; }

if (elsewhere clang++); then
  rm -f "$tools/bin/clang++"
else
  if ! command -v g++ >/dev/null; then
    command -v apt-get >/dev/null || missing "a C++ compiler" "install clang++ or g++"
    echo "installing g++, which XGrammar is compiled with" >&2
    apt-get install --yes --quiet g++ >&2 || missing "a C++ compiler" "apt-get could not install g++; install clang++ or g++"
  fi
  # The crate has the compiler optimize at link time; Rust's linker does not read what g++ leaves for that.
  cat >"$tools/bin/clang++" <<'WRAPPER'
#!/bin/sh
exec g++ "$@" -fno-lto
WRAPPER
  chmod +x "$tools/bin/clang++"
fi
if ! command -v cmake >/dev/null && [ ! -x "$tools/bin/cmake" ]; then
  command -v python3 >/dev/null || missing "cmake" "install it, or python3 with pip, which has it from PyPI"
  echo "installing cmake from PyPI into $tools" >&2
  python3 -m pip install --quiet --disable-pip-version-check --target "$tools/python" 'cmake>=3.18' >&2 \
    || missing "cmake" "pip could not install it; install it"
  ln -sf "$tools/python/cmake/data/bin/cmake" "$tools/bin/cmake"
fi
echo "$tools/bin"
