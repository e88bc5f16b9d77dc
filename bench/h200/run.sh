#!/usr/bin/env bash
# What to run on a machine with an NVIDIA GPU: whether it gives the bits of the CPU, and how fast it is.
#
#   bench/h200/run.sh VEERY [FOLDER]
#
# VEERY: a program built with VEERY_CUDA. FOLDER: for the random models (32 GB with those of 8B) and what the
# programs print; default: a new one in /tmp. DEVICE (default cuda), SMALL=1 (no 8B), REAL, a model with a tokenizer
# that is compared too, and PEER, the folder of llama.cpp's programs that are measured beside it, may be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
veery=$(realpath "$1")
folder=${2:-$(mktemp -d /tmp/veery-h200-XXXX)}
device=${DEVICE:-cuda}
mkdir -p "$folder"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || true
"$veery" --version

model() { # NAME SHAPE TYPE [EMBEDDING]: its path
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
  echo "no llama.cpp beside it ($peer): CUDA=90 bench/peers/build_llama_cpp.sh builds it"
fi

prompt() { # MODEL: tokens a second of a prompt of 2,048
  "$veery" bench "$1" --device "$device" -p 2048 -n 0 -r 3
}
for type in q8_0 q4_1; do
  prompt "$(model "1b-$type" 1b "$type")"
  prompt "$(model "1b-$type-outliers" 1b "$type" --outliers)"
done
long() { # MODEL: tokens a second of steps after 4,000 tokens
  "$veery" bench "$1" --device "$device" -p 0 -n 64 -d 4000 -r 3
}
long "$(model 1b-q4_k 1b q4_k q6_k)"
if [ -z "${SMALL:-}" ]; then
  long "$(model 8b-q4_k 8b q4_k q6_k)"
  long "$(model 8b-q8_0 8b q8_0)"
fi
exit $failed
