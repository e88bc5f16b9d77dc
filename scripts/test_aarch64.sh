#!/usr/bin/env bash
# Builds veery for 64-bit ARM with Debian's cross compiler and runs unit tests and fuzz targets
# under qemu, on an emulated CPU with dot products (kernels are tested with and without them) and,
# for kernels, on one without. For Debian 12 on x86-64, as root or with sudo.
#
#   scripts/test_aarch64.sh [CTEST-ARGUMENT...]     for example: scripts/test_aarch64.sh -R Linear
#   JOBS=2 scripts/test_aarch64.sh                  jobs for building and testing (default: all CPUs)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly jobs=${JOBS:-$(nproc)}
readonly wanted=(
  g++-12-aarch64-linux-gnu libbenchmark-dev:arm64 libfmt-dev:arm64 libgtest-dev:arm64
  libhwy-dev:arm64 libpcre2-dev:arm64 libsamplerate0-dev:arm64 libsimdjson-dev:arm64 libsndfile1-dev:arm64
  libmpg123-dev:arm64 libutf8proc-dev:arm64 libzip-dev:arm64 qemu-user-static zlib1g-dev:arm64
)

case ${1:-} in
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac

say() { printf 'test_aarch64: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2> /dev/null) == installed ]]
}

install_missing() {
  local missing=() package as_root=()
  for package in "${wanted[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi
  if ((EUID != 0)); then
    command -v sudo > /dev/null || fail "no sudo here; run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" dpkg --add-architecture arm64
  "${as_root[@]}" apt-get --quiet=2 update || fail "apt-get update failed: is there a network?"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get --quiet=2 install --yes --no-install-recommends "${missing[@]}" ||
    fail "apt-get could not install the missing packages (see its output above)"
}

scripts/setup.sh
install_missing

say "building preset aarch64 with $jobs jobs (the first time takes some minutes)"
cmake --preset aarch64 --log-level=WARNING > /dev/null
cmake --build --preset aarch64 --parallel "$jobs"

# Tests that need strace or start the program from a script only run in scripts/test.sh.
ctest --preset aarch64 --parallel "$jobs" --label-regex '^(unit|fuzz-smoke)$' \
  --exclude-regex '^cli' "$@"

# The CPU above has all extensions; this one has only NEON.
say "kernels on a processor without dot products"
qemu-aarch64-static -cpu cortex-a72 build/aarch64/bin/kernels_test --gtest_brief=1
