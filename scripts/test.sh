#!/usr/bin/env bash
# Builds veery twice and runs all tests: with AddressSanitizer and UndefinedBehaviorSanitizer
# (preset dev) those that need no real weights, then all tests of the release build (preset
# release). Installs missing packages and downloads the real models first.
#
#   scripts/test.sh [CTEST-ARGUMENT...]     for example: scripts/test.sh -R Tokenizer -V
#   JOBS=2 scripts/test.sh                  jobs for building and testing (default: all CPUs)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly jobs=${JOBS:-$(nproc)}
failed=()

case ${1:-} in
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac

# Prefixes messages with the minutes since the start.
say() { printf 'test: [%d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }
fail() { say "$*" >&2; exit 1; }

# build PRESET GROUPS: tests run in GROUPS per program; 0: each test separately.
build() {
  say "building preset $1 with $jobs jobs (the first time takes some minutes)"
  cmake --preset "$1" -DVEERY_TESTS=ON -DVEERY_TEST_GROUPS="$2" --log-level=WARNING > /dev/null &&
    cmake --build --preset "$1" --parallel "$jobs" ||
    fail "preset $1 could not be built, see the output above"
}

# GCC 12's AddressSanitizer cannot place its shadow memory if the kernel randomises addresses over
# more than 28 bits; in that case tests run without randomisation, if permitted.
steady_addresses=()
read_address_spread() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2> /dev/null || echo 0)
  if ((bits > 28)) && setarch --addr-no-randomize true 2> /dev/null; then
    steady_addresses=(setarch --addr-no-randomize)
  fi
}

# Filters ctest's output: failed tests with their output, slow tests, and progress.
readonly long=60 each=250  # seconds, tests
show_tests() {
  local line count=0
  while IFS= read -r line; do
    case $line in
      *' Start '*[0-9]:*) ;;
      *Test\ *\#*Passed*)
        count=$((count + 1))
        if [[ $line =~ ^\ *([0-9]+/[0-9]+)\ Test.*#[0-9]+:\ ([^ ]+).*Passed\ +([0-9]+)\. ]]; then
          if ((BASH_REMATCH[3] >= long)); then say "${BASH_REMATCH[2]} took ${BASH_REMATCH[3]} s"; fi
          if ((count % each == 0)); then say "${BASH_REMATCH[1]} tests"; fi
        fi ;;
      *) printf '%s\n' "$line" ;;
    esac
  done
}

# test_preset PRESET CTEST-ARGUMENT...: the full output of ctest is in build/PRESET/test.log.
test_preset() {
  local preset=$1 show=show_tests
  shift
  if (($# > 0)); then show=cat; fi
  say "testing preset $preset"
  "${steady_addresses[@]}" ctest --preset "$preset" --parallel "$jobs" "$@" 2>&1 |
    tee "build/$preset/test.log" | "$show" || failed+=("$preset")
}

# Prints ctest's summary: failed tests, times by label, the count.
summary() {
  printf '\n== %s\n' "$1"
  sed -n '/tests passed,/,$p' "build/$1/test.log"
}

say "installing missing packages"
scripts/setup.sh
scripts/models.sh
scripts/clients.sh || true  # it reports what is skipped
read_address_spread

# With sanitizers, starting a program takes longer than most tests. Test names are only needed with
# arguments.
build dev $(($# > 0 ? 0 : 4))
test_preset dev --label-exclude '^model$' "$@"
build release 0
test_preset release "$@"

summary dev
summary release
if ! grep -q 'tests passed,' build/dev/test.log build/release/test.log; then
  say "no test was run" >&2
  exit 1
fi
if ((${#failed[@]} > 0)); then
  say "failed: ${failed[*]}" >&2
  exit 1
fi
