#!/usr/bin/env bash
# The official OpenAI clients, for Python and for Node, in the cache folder (about 60 MB, made once). Prints the folder, which
# has `python` and `node` as far as they could be had; what could not is said on stderr, and the tests skip it.
set -uo pipefail
python_client="openai==3.57.0"
node_client="openai@7.59.0"
folder=${XDG_CACHE_HOME:-$HOME/.cache}/stepscope/openai-clients
mkdir -p "$folder"

if [ "$(cat "$folder/python/made-with" 2>/dev/null || true)" != "$python_client" ]; then
    rm -rf "$folder/python"
    if "${PYTHON:-python3}" -m venv "$folder/python" >&2 &&
        "$folder/python/bin/python" -m pip install --quiet --disable-pip-version-check "$python_client" >&2; then
        echo "$python_client" >"$folder/python/made-with"
    else
        echo "the Python client could not be installed: its test is skipped" >&2
        rm -rf "$folder/python"
    fi
fi
if [ "$(cat "$folder/node/made-with" 2>/dev/null || true)" != "$node_client" ]; then
    rm -rf "$folder/node"
    mkdir -p "$folder/node"
    if command -v npm >/dev/null &&
        npm install --silent --no-audit --no-fund --prefix "$folder/node" "$node_client" >&2; then
        echo "$node_client" >"$folder/node/made-with"
    else
        echo "the Node client could not be installed: its test is skipped" >&2
        rm -rf "$folder/node"
    fi
fi
echo "$folder"
