#!/usr/bin/env bash
# Builds xgrammar, which implements constrained decoding, from its source archive on PyPI: pinned,
# checksummed, as a static library in veery's cache. Does nothing, without network, if it already
# exists.
#
#   scripts/xgrammar.sh            build it if missing, and print the folder
#   scripts/xgrammar.sh --where    only print the folder
set -euo pipefail

readonly version=0.2.8
readonly sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
readonly archive=xgrammar-$version.tar.gz
# The second number is the version of the patches below.
readonly folder=${VEERY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/deps}/xgrammar-$version-3

fail() { printf 'xgrammar: %s\n' "$*" >&2; exit 1; }

# Downloads the archive from the package index configured for pip, default PyPI.
download() {
  python3 - "$archive" "$1" << 'PYTHON'
import os, re, shutil, ssl, subprocess, sys, urllib.parse, urllib.request

def pip_setting(name):
    if value := os.environ.get("PIP_" + name.upper().replace("-", "_")):
        return value
    for call in ([sys.executable, "-m", "pip"], ["pip"]):
        try:
            done = subprocess.run([*call, "config", "get", "global." + name], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return done.stdout.strip()
    return None

archive, out = sys.argv[1:]
index = (pip_setting("index-url") or "https://pypi.org/simple").rstrip("/") + "/xgrammar/"
context = ssl.create_default_context(cafile=pip_setting("cert"))
page = urllib.request.urlopen(index, timeout=60, context=context).read().decode()
found = re.search(r'href="([^"]*' + re.escape(archive) + r')[^"]*"', page)
if not found:
    sys.exit(f"the index has no {archive}")
link = urllib.parse.urljoin(index, found[1])
with urllib.request.urlopen(link, timeout=120, context=context) as source, open(out, "wb") as target:
    shutil.copyfileobj(source, target)
PYTHON
}

# replace FILE OLD NEW COUNT: replaces OLD by NEW in each of the COUNT lines that contain it.
replace() {
  python3 - "$@" << 'PYTHON'
import sys
path, old, new, count = sys.argv[1:]
text = open(path).read()
if text.count(old) != int(count):
    sys.exit(f"{path} has {text.count(old)} of the expected {count} times: {old}")
open(path, "w").write(text.replace(old, new))
PYTHON
}

# Adds two limits that the library lacks:
# - The forced continuation is searched to its end at each step. A grammar that forces long or
#   unbounded text (root ::= "a" root) would block all answers. A draft uses only a few tokens of
#   it.
# - The Earley parser takes cubic time for ambiguous grammars. It counts its steps and throws when a
#   thread has used up its budget.
bound() {
  local cpp=$1/cpp states='const auto& parent_states_map = rule_id_to_completable_states_[state.rule_start_pos];'
  local latest='const auto& latest_states = scanable_state_history_[scanable_state_history_.size() - 1];'
  local pop='tmp_process_state_queue_.pop();' compare='const auto in_vec = [&](const ParserState& state_) {'
  replace "$cpp/grammar_matcher.cc" 'while (can_find_next_char) {' \
    'while (can_find_next_char && num_accepted_chars < 256) {' 1 || return 1
  cat > "$1/include/xgrammar/work.h" << 'HEADER'
// work.h: added by veery. Counts the steps of the parser.
#pragma once
#include <cstdint>
#include <stdexcept>

namespace xgrammar {

struct WorkSpent : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/*! \brief Steps that this thread may still take. */
int64_t& WorkLeft();

inline void SpendWork(int64_t steps) {
  if ((WorkLeft() -= steps) < 0) throw WorkSpent("the grammar takes too many steps");
}

}  // namespace xgrammar
HEADER
  replace "$cpp/earley_parser.cc" '#include "earley_parser.h"' '#include "earley_parser.h"
#include <xgrammar/work.h>
namespace xgrammar {
int64_t& WorkLeft() {
  static thread_local int64_t left = INT64_MAX;
  return left;
}
}' 1 || return 1
  replace "$cpp/earley_parser.cc" "$states" "$states SpendWork(parent_states_map.size());" 3 || return 1
  replace "$cpp/earley_parser.cc" "$compare" "$compare SpendWork(rule_id_to_completable_states_.Back().size());" 2 || return 1
  replace "$cpp/earley_parser.cc" "$latest" "$latest SpendWork(latest_states.size());" 2 || return 1
  replace "$cpp/earley_parser.cc" "$pop" "$pop SpendWork(1);" 3 || return 1
}

# Token masks are computed for each grammar state by trying the whole vocabulary. In states that
# accept any ordinary text, as within strings, ordinary tokens need not be tried.
take_plain_text() {
  local cpp=$1/cpp
  cp "$(dirname "${BASH_SOURCE[0]}")/xgrammar/plain_text.h" "$cpp/plain_text.h"
  replace "$cpp/tokenizer_info_impl.h" '  void BuildTokenCharData();' '  void BuildTokenCharData();
  std::vector<int8_t> plain_lengths;  // PlainLength() of the sorted vocabulary' 1 || return 1
  replace "$cpp/tokenizer_info.cc" '#include "tokenizer_info_impl.h"' '#include "plain_text.h"
#include "tokenizer_info_impl.h"' 1 || return 1
  replace "$cpp/tokenizer_info.cc" '  token_char_counts_.assign(sorted_decoded_vocab_.size(), 0);' '  plain_lengths.clear();
  for (const auto& token : sorted_decoded_vocab_) plain_lengths.push_back(PlainLength(token.second));
  token_char_counts_.assign(sorted_decoded_vocab_.size(), 0);' 1 || return 1
  replace "$cpp/grammar_compiler.cc" '#include "grammar_impl.h"' '#include "grammar_impl.h"
#include "plain_text.h"' 1 || return 1
  replace "$cpp/grammar_compiler.cc" '  auto [speculative_calculation, speculative_mask] = GetSpeculativeCalculation();' \
    '  const auto [plain_ascii, plain_all] =
      has_char_budget_rules_ || grammar_->GetRule(init_rule_id_).is_lazy
          ? std::pair<int, int>{0, 0}
          : PlainSteps(grammar_).Count(init_rule_id_, initial_state_.element_id);
  const std::vector<int8_t>& plain_lengths = tokenizer_info_.ImplPtr()->plain_lengths;
  auto [speculative_calculation, speculative_mask] = GetSpeculativeCalculation();' 1 || return 1
  replace "$cpp/grammar_compiler.cc" '      const auto& token = sorted_decoded_vocab[i].second;
      // This optimization' '      if (const int plain = plain_lengths[i];
          plain != 0 && (plain > 0 ? plain <= plain_ascii : -plain <= plain_all)) {
        tmp_accepted_indices_.push_back(i);
        continue;
      }
      const auto& token = sorted_decoded_vocab[i].second;
      // This optimization' 1 || return 1
}

# Compiles the library's sources only, without bindings and tests.
compile() {
  local source=$1 out=$2 file
  mkdir -p "$out/objects"
  while read -r file; do
    printf '%s\0%s\0' "$file" "$out/objects/${file//\//_}.o"
  done < <(cd "$source" && find cpp -name '*.cc' -not -path '*/tvm_ffi/*' | sort) |
    (cd "$source" && xargs -0 -n 2 -P "$(nproc)" sh -c \
      'c++ -std=c++17 -O2 -fPIC -w -Iinclude -I3rdparty/picojson -I3rdparty/dlpack/include -c "$0" -o "$1"')
  mkdir -p "$out/lib" "$out/include"
  ar rcs "$out/lib/libxgrammar.a" "$out"/objects/*.o
  cp -r "$source/include/xgrammar" "$source/3rdparty/dlpack/include/dlpack" "$out/include/"
  cp "$source/LICENSE" "$out/"
  rm -rf "$out/objects"
}

main() {
  if [[ ${1:-} == --where ]]; then echo "$folder"; return; fi
  if [[ -f $folder/lib/libxgrammar.a ]]; then echo "$folder"; return; fi
  # Not local, because the trap uses it after the function has returned.
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  printf 'xgrammar: fetching %s (2.7 MB) and building it\n' "$archive" >&2
  download "$work/$archive" || fail "cannot fetch $archive"
  sha256sum --check --status <<< "$sha256  $work/$archive" || fail "$archive does not have sha256 $sha256"
  tar -C "$work" -xzf "$work/$archive"
  bound "$work/xgrammar-$version" || fail "the lines to patch were not found"
  take_plain_text "$work/xgrammar-$version" || fail "the mask lines to patch were not found"
  compile "$work/xgrammar-$version" "$work/built" || fail "the build failed"
  mkdir -p "$(dirname "$folder")"
  rm -rf "$folder"
  mv "$work/built" "$folder"
  echo "$folder"
}
main "$@"
