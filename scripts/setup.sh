#!/usr/bin/env bash
# Installs missing packages that are needed to build and test veery. For Debian 12, as root or with
# sudo; if nothing is missing it changes nothing and needs no network.
#
#   scripts/setup.sh            install missing packages
#   scripts/setup.sh --check    only list missing packages; exit 1 if there are any
#   scripts/setup.sh --cuda     also install nvcc if missing, to build CUDA kernels (scripts/cuda.sh)
set -euo pipefail

# package | reason
readonly wanted="
g++|C++20 compiler
cmake|build
ninja-build|build
pkg-config|build: finds PCRE2, utf8proc, libsndfile, libmpg123, libsamplerate, libzip and zlib
ccache|build: what is compiled once is not compiled again
mold|build: fast linking
libeigen3-dev|Eigen: decompositions of matrices of arrays
libhwy-dev|Highway: one kernel source for every instruction set
nlohmann-json3-dev|JSON values
libsimdjson-dev|parsing JSON: instructions are chosen at run time
libfmt-dev|formatted text
libcli11-dev|command line
libboost1.81-dev|Beast and Asio: HTTP
libpcre2-dev|patterns that split text into words
libutf8proc-dev|Unicode normal forms
libsndfile1-dev|sound files but MP3
libmpg123-dev|MP3
libsamplerate0-dev|sound at another rate
libzip-dev|NumPy archives (.npz)
libcurl4-openssl-dev|fetching models: veery pull
libssl-dev|HTTPS, and checking what was fetched
zlib1g-dev|how much text repeats itself, in transcripts; the compressed web page
libjs-markdown-it|web page: Markdown
node-dompurify|web page: sanitising
libjs-katex|web page: mathematics
fonts-katex|web page: fonts of mathematics
libjs-highlight.js|web page: colours of code
openssl|tests make certificates
libgtest-dev|tests
libbenchmark-dev|micro-benchmarks
git|source control
strace|a test counts system calls
qemu-user|tests run on emulated processors that have less than this one
python3|scripts and the layer check
python3-numpy|tests compare functions of arrays with it
python3-venv|fetching models, where python3 has no pip
ca-certificates|fetching models
"

say() { printf 'setup: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

is_installed() {
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo > /dev/null ||
      fail "no sudo here; run as root: apt-get install $*"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get --quiet=2)
  "${apt[@]}" update || fail "apt-get update failed (see its output above); is there a network?"
  "${apt[@]}" install --yes --no-install-recommends "$@" ||
    fail "apt-get could not install the missing packages (see its output above):" \
      "is there a network, and space on the disk?"
}

main() {
  local check=false cuda=false argument
  for argument in "$@"; do
    case $argument in
      --check) check=true ;;
      --cuda) cuda=true ;;
      -h | --help) usage; exit 0 ;;
      *) fail "unknown argument '$argument'; see --help" ;;
    esac
  done

  if ! command -v dpkg-query > /dev/null; then
    say "not a Debian system, nothing installed. The build needs the contents of these Debian packages:"
    cut -d'|' -f1 <<< "$wanted" | xargs
    return
  fi

  local missing=() package why
  while IFS='|' read -r package why; do
    if [[ -n $package ]] && ! is_installed "$package"; then
      if ((${#missing[@]} == 0)); then say "missing on this machine:"; fi
      printf '  %-20s %s\n' "$package" "$why"
      missing+=("$package")
    fi
  done <<< "$wanted"

  if ((${#missing[@]} == 0)); then
    say "everything is installed"
  elif $check; then
    exit 1
  else
    say "installing ${#missing[@]} package(s) with apt-get"
    install_packages "${missing[@]}"
    say "done"
  fi
  # Not available as a package. Everything except structured output works without it.
  if ! $check; then
    "$(dirname "${BASH_SOURCE[0]}")/xgrammar.sh" > /dev/null ||
      say "continuing without xgrammar: constrained decoding is not available" >&2
  fi
  if $cuda; then want_nvcc $check; fi
}

# want_nvcc CHECK: uses the installed nvcc, or downloads it with scripts/cuda.sh.
want_nvcc() {
  local nvcc here
  here=$(dirname "${BASH_SOURCE[0]}")
  for nvcc in "${CUDA_HOME:-}/bin/nvcc" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$("$here/cuda.sh" --where)"; do
    if [[ -x $nvcc ]]; then say "nvcc: $nvcc"; return; fi
  done
  if $1; then say "missing: nvcc"; exit 1; fi
  nvcc=$("$here/cuda.sh") || fail "no nvcc: veery can only be built for the CPU"
  say "nvcc: $nvcc"
}

main "$@"
