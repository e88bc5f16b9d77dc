#!/usr/bin/env bash
# Builds llama.cpp, the peer that compare.py measures against, outside the repository.
#
#   bench/peers/build_llama_cpp.sh [FOLDER]    default: ${XDG_CACHE_HOME:-$HOME/.cache}/veery/peers
#   JOBS=2 sets the number of compile jobs (default: all processors).
#   CUDA=90 builds llama-bench and llama-batched-bench with the CUDA backend for GPUs of these
#   architectures (CMAKE_CUDA_ARCHITECTURES; 90: H100 and H200) in FOLDER/llama.cpp-cuda/bin.
#   Requires the CUDA toolkit with cuBLAS.
#
# The source is the archive of llama-cpp-python, which contains a complete llama.cpp, because a
# package index serves a pinned and checksummed file. Requires pip, cmake, a C++17 compiler and
# ninja or make. Running it again only checks that everything exists. Programs are built in
# FOLDER/llama.cpp/bin.
set -euo pipefail

readonly version=0.3.36
readonly sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/peers}
readonly archive=$folder/llama_cpp_python-$version.tar.gz
readonly package=$folder/llama_cpp_python-$version
readonly cuda=${CUDA:-}
if [[ -n $cuda ]]; then
  readonly build=$folder/llama.cpp-cuda
  readonly targets=(llama-bench llama-batched-bench)
else
  readonly build=$folder/llama.cpp
  readonly targets=(llama-bench llama-completion llama-perplexity llama-tokenize llama-quantize llama-embedding llama-batched-bench
    llama-server)
fi

say() { printf 'build_llama_cpp: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

is_wanted_archive() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

fetch() {
  if [[ -f $archive ]] && is_wanted_archive "$archive"; then return; fi
  say "fetching llama-cpp-python $version"
  # pip reads an archive's metadata before saving it, so the checksum is part of the requirement:
  # pip then rejects a wrong archive before running anything in it.
  local requirement=$folder/requirement.txt
  echo "llama-cpp-python==$version --hash=sha256:$sha256" > "$requirement"
  python3 -m pip download --quiet --no-deps --no-binary llama-cpp-python --require-hashes \
    --dest "$folder" --requirement "$requirement"
  is_wanted_archive "$archive" || fail "$archive does not have sha256 $sha256"
}

unpack() {
  if [[ -f $package/.unpacked ]]; then return; fi
  say "unpacking into $package"
  rm -rf "$package"
  tar -xzf "$archive" -C "$folder"
  touch "$package/.unpacked"
}

# AMX is disabled. GCC 12's _tile_loadconfig declares only 8 of the 64 bytes that it reads, so at
# -O2 the compiler drops the stores of the tile shapes and llama.cpp stops with an illegal
# instruction at its first tile load. -march=native enables AMX if the CPU has it; these flags
# override that.
isa_flags() {
  case $(uname -m) in
    x86_64) echo "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" ;;
    *) echo "" ;;
  esac
}

configure() {
  local flags; flags=$(isa_flags)
  local generator=()
  if command -v ninja > /dev/null; then generator=(-G Ninja); fi
  local device=()
  # The GPU machine may have another CPU than the build machine, and a single GPU does not need
  # NCCL.
  if [[ -n $cuda ]]; then
    device=(-DGGML_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$cuda" -DGGML_CUDA_NCCL=OFF -DGGML_NATIVE=OFF)
  else
    device=(-DGGML_NATIVE=ON)
  fi
  cmake -S "$package/vendor/llama.cpp" -B "$build" "${generator[@]}" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF "${device[@]}" \
    "-DCMAKE_C_FLAGS=$flags" "-DCMAKE_CXX_FLAGS=$flags" \
    -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=ON \
    -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_OPENSSL=OFF \
    > "$build.configure.log" 2>&1 || fail "cmake failed, see $build.configure.log"
}

# Writes the description of the peer that compare.py prints, as lines of `key: value`.
describe() {
  local commit compiler
  commit=$(awk -v head="## [$version]" '
      index($0, head) == 1 { here = 1; next }  /^## / { here = 0 }
      here && match($0, /llama\.cpp@[0-9a-f]+/) {
        print substr($0, RSTART + 10, RLENGTH - 10)
        exit
      }
    ' "$package/CHANGELOG.md")
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
  {
    echo "version: llama.cpp ${commit:-of unknown commit} (llama-cpp-python $version)"
    echo "compiler: $("$compiler" --version | head -n 1)"
    if [[ -n $cuda ]]; then
      echo "flags: Release, GGML_CUDA=ON for $cuda, static"
    else
      echo "flags: Release, GGML_NATIVE=ON (-march=native), static, $(isa_flags)"
    fi
  } > "$build/bin/peer.txt"
}

mkdir -p "$folder"
fetch
unpack
configure
say "building ${targets[*]} (some minutes the first time), log in $build.build.log"
cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}" \
  > "$build.build.log" 2>&1 || fail "the build failed, see $build.build.log"
describe
say "done: $build/bin"
