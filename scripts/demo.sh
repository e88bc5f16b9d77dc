#!/usr/bin/env bash
# Goes from a bare checkout to an answer: installs missing packages, builds veery, downloads a small
# chat model and runs it on PROMPT. Afterwards the program is build/release/bin/veery; `cmake
# --install build/release` installs it.
#
#   scripts/demo.sh [PROMPT]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly jobs=${JOBS:-$(nproc)}
readonly model=${VEERY_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/models}/SmolLM2-135M-Instruct.Q4_1.gguf

case ${1:-} in
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
prompt=${*:-Explain in two sentences why leaves are green.}

say() { printf 'demo: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

scripts/setup.sh
say "building veery (the first time takes some minutes)"
cmake --preset release -DVEERY_TESTS=ON --log-level=WARNING > /dev/null &&
  cmake --build --preset release --parallel "$jobs" --target installed ||
  fail "the build failed, see the output above"
scripts/models.sh smollm2

say "build/release/bin/veery run $model -p '$prompt' --temp 0"
printf '\n'
exec build/release/bin/veery run "$model" -p "$prompt" --temp 0
