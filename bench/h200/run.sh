#!/usr/bin/env bash
# Checks on a machine with an NVIDIA GPU that results equal those of the CPU, and measures speed.
#
#   bench/h200/run.sh VEERY [FOLDER]
#
# VEERY: a program built with VEERY_CUDA. FOLDER: for random models (32 GB including 8B) and
# outputs; default: a new folder in /tmp. Optional variables: DEVICE (default cuda), SMALL=1 (no
# 8B), REAL (a model with a tokenizer to check as well), PEER (folder of llama.cpp programs to
# compare with).
set -euo pipefail
cd "$(dirname "$0")/../.."
veery=$(realpath "$1")
folder=${2:-$(mktemp -d /tmp/veery-h200-XXXX)}
device=${DEVICE:-cuda}
mkdir -p "$folder"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
"$veery" --version

model() { # NAME SHAPE TYPE [EMBEDDING]: prints its path, creating it if needed
  local path="$folder/$1.gguf"
  [ -f "$path" ] || python3 bench/h200/models.py "$path" "${@:2}"
  echo "$path"
}

failed=0
parts=tiny,wide,types,shapes,batch,bf16,memory,sanitizers
python3 bench/h200/check.py "$veery" --folder "$folder" --device "$device" --only "$parts" || failed=1
if [ -n "${REAL:-}" ]; then
  python3 bench/h200/check.py "$veery" --folder "$folder" --device "$device" --only real --real "$REAL" || failed=1
fi

peer=${PEER:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/peers/llama.cpp-cuda/bin}
shapes=1b,8b
if [ -n "${SMALL:-}" ]; then shapes=1b; fi
if [ -x "$peer/llama-bench" ]; then
  python3 bench/h200/compare.py "$veery" "$peer" --folder "$folder" --device "$device" --shapes "$shapes" \
    --json "$folder/compare.json" --svg "$folder/compare.svg" || failed=1
else
  echo "no llama.cpp to compare with in $peer: CUDA=90 bench/peers/build_llama_cpp.sh builds it"
fi

prompt() { # MODEL: prefill speed, 2,048 tokens
  "$veery" bench "$1" --device "$device" -p 2048 -n 0 -r 3
}
for type in q8_0 q4_1; do
  prompt "$(model "1b-$type" 1b "$type")"
  prompt "$(model "1b-$type-outliers" 1b "$type" --outliers)"
done
long() { # MODEL: decode speed after 4,000 tokens
  "$veery" bench "$1" --device "$device" -p 0 -n 64 -d 4000 -r 3
}
long "$(model 1b-q4_k 1b q4_k q6_k)"
if [ -z "${SMALL:-}" ]; then
  long "$(model 8b-q4_k 8b q4_k q6_k)"
  long "$(model 8b-q8_0 8b q8_0)"
fi
exit $failed
