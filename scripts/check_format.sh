#!/usr/bin/env bash
# Checks the format of C++ sources against .clang-format without changing them.
#
#   scripts/check_format.sh [FILE...]     default: all files tracked by git
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'check_format: %s\n' "$*"; }

# Versions of clang-format differ slightly, so only Debian 12's version is used.
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
