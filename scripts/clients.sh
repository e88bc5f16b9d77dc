#!/usr/bin/env bash
# Creates a Python environment with unmodified, pinned clients from PyPI, which tests use against a
# live server. Does nothing, without network, if it already exists.
#
#   scripts/clients.sh             openai, openai-agents, anthropic, langchain-openai, litellm,
#                                  instructor, llm, ollama
#   scripts/clients.sh --all       also lm-eval and mlx-lm, 700 MB
#   scripts/clients.sh --page      also playwright, for tests of the web page (uses the
#                                  system's Chromium)
#   scripts/clients.sh --python    only print the interpreter; exit 77 if there is none
set -euo pipefail

readonly folder=${VEERY_DEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/veery/deps}/clients-2
# openai 3.3.0 is the newest release that all other clients accept.
readonly few=(openai==3.3.0 anthropic==2.12.0 langchain-openai==1.7.3 llm==0.36 ollama==0.6.3 litellm==1.110.2
  instructor==1.17.0 openai-agents==0.24.0)
readonly more=(lm-eval==0.4.13 tiktoken 'mlx[cpu]==0.32.4' mlx-lm==0.32.2)

say() { printf 'clients: %s\n' "$*" >&2; }

readonly page=(playwright==1.65.2)

wanted=("${few[@]}") mark=$folder/.done
case ${1:-} in
  "") ;;
  --all) wanted+=("${more[@]}") mark=$folder/.all ;;
  --page) wanted+=("${page[@]}") mark=$folder/.page ;;
  --python)
    [[ -f $folder/.done ]] || exit 77
    echo "$folder/bin/python"
    exit 0
    ;;
  -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) say "unknown argument '$1'; see --help"; exit 2 ;;
esac

if [[ ! -f $mark ]]; then
  say "installing ${wanted[*]} (a minute, the first time)"
  if ! { python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}"; } >&2; then
    say "installation failed (see pip's output above): tests that need the clients are skipped"
    exit 1
  fi
  touch "$folder/.done" "$mark"
fi
