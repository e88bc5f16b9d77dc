#!/usr/bin/env bash
# Checks that the C++ sources have the format of .clang-format; changes nothing.
#
#   scripts/check_format.sh [FILE...]     no FILE: all that git knows
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'check_format: %s\n' "$*"; }

# Versions of clang-format differ in small things, so only Debian 12's is asked.
version=$(clang-format --version 2> /dev/null | grep -o 'version [0-9]*' || true)
if [[ $version != "version 14" ]]; then
  say "needs clang-format 14 (apt-get install clang-format), found ${version:-none}; not checked"
  exit 0
fi

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -t files < <(git ls-files 'src/*.cc' 'src/*.h' 'tests/*.cc' 'tests/*.h' \
    'fuzz/*.cc' 'bench/*.cc' 'bench/*.h')
fi
clang-format --dry-run -Werror "${files[@]}"
say "${#files[@]} files have the right format"
