#!/usr/bin/env bash
# Downloads nvcc of CUDA 13.0, which compiles the kernels for NVIDIA GPUs, from NVIDIA's packages on
# PyPI: pinned, checksummed, 120 MB, into veery's cache. Needs neither a GPU nor a driver. Does
# nothing, without network, if it already exists.
#
#   scripts/cuda.sh            download it if missing, and print the path of nvcc
#   scripts/cuda.sh --where    only print the path
set -euo pipefail

readonly version=13.0
readonly folder=${VEERY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/deps}/cuda-$version
readonly nvcc=$folder/nvidia/cu13/bin/nvcc

# Packages with the checksums of their files for x86-64 and 64-bit ARM.
readonly packages="
nvidia-cuda-nvcc==13.0.88 --hash=sha256:56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03 --hash=sha256:c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f
nvidia-nvvm==13.0.88 --hash=sha256:c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0 --hash=sha256:c4376a291d72d22a315d9d2f69bdae8f8cd83a627f75bad395cee49a0fe65dc1
nvidia-cuda-crt==13.0.88 --hash=sha256:2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 --hash=sha256:ee2ea2a97073e02ee62bb27841f437332be2c248e3eac013df07997ada39c003
nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 --hash=sha256:ef9bcbe90493a2b9d810e43d249adb3d02e98dd30200d86607d8d02687c43f55
"

fail() { printf 'cuda: %s\n' "$*" >&2; exit 1; }

main() {
  if [[ ${1:-} == --where || -x $nvcc ]]; then echo "$nvcc"; return; fi
  [[ -z ${1:-} ]] || fail "unknown argument '$1', expected --where or nothing"
  # Not local, because the trap uses it after the function has returned.
  mkdir -p "$(dirname "$folder")"
  work=$(mktemp -d "$folder.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  printf 'cuda: fetching nvcc of CUDA %s (120 MB)\n' "$version" >&2
  python3 -m venv "$work/python" || fail "python3 -m venv failed: Debian's package is python3-venv"
  echo "$packages" > "$work/packages.txt"
  "$work/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --target "$work/built" --requirement "$work/packages.txt" >&2 || fail "download failed (see pip's output above)"
  [[ -x $work/built/nvidia/cu13/bin/nvcc ]] || fail "missing nvidia/cu13/bin/nvcc in the packages"
  rm -rf "$folder"
  mv "$work/built" "$folder"
  echo "$nvcc"
}
main "$@"
