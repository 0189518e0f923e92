#!/usr/bin/env bash
# The tests of recorders/vllm that need no vLLM, with what they need in a virtual environment in the cache folder (about
# 140 MB, made once). Those of the worker's side need torch (recorders/vllm/check.sh has it) and are skipped here.
# STEPSCOPE names a built stepscope; one test reads with it what the recorder writes.
set -euo pipefail
cd "$(dirname "$0")/../recorders/vllm"
packages=(pytest numpy blake3 "mcap>=1.6" "msgpack>=1.0")
python=${PYTHON:-python3}
venv=${XDG_CACHE_HOME:-$HOME/.cache}/stepscope/recorder-tests

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "the tests of recorders/vllm need Python 3.10 or later, and \`$python\` is none: name one with PYTHON=..." >&2
    exit 2
fi
made_with="$("$python" -c 'import sys; print(sys.executable, sys.version)') ${packages[*]}"
if [ "$(cat "$venv/made-with" 2>/dev/null || true)" != "$made_with" ]; then
    echo "installing ${packages[*]} into $venv"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "\`$python -m venv\` does not work: on Debian and Ubuntu, apt-get install python3-venv brings it" >&2
        exit 2
    fi
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
    echo "$made_with" >"$venv/made-with"
fi
exec "$venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
