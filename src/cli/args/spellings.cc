#include "cli/args/spellings.h"

#include <algorithm>

#include "sample/parameters.h"

namespace veery::cli {
namespace {

struct Synonym {
  std::string_view theirs, ours;
};

// A row applies to every verb that has the flag; a verb's own spellings take precedence.
constexpr Synonym kSynonyms[] = {
    {"-sys", "--system"},
    {"-np", "--parallel"},
    {"-jf", "--json-schema-file"},
    {"-md", "--draft-model"},
    {"--model-draft", "--draft-model"},
    {"--draft", "--draft-max"},
    {"--draft-n", "--draft-max"},
    {"--num-draft-tokens", "--draft-max"},
    {"--sys", "--system"},
    {"--system-prompt", "--system"},
    {"--system-message", "--system"},
    {"--hidethinking", "--hide-thinking"},
    {"-ngl", "--gpu-layers"},
    {"--n-gpu-layers", "--gpu-layers"},
    {"--num-gpu", "--gpu-layers"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"--n-predict", "--predict"},
    {"--num-predict", "--predict"},
    {"--max-new-tokens", "--predict"},
    {"--max-length", "--predict"},
    {"--repetition-context-size", "--repeat-last-n"},
    {"--typical", "--typical-p"},
    {"--top-nsigma", "--top-n-sigma"},
    {"--ctx", "--ctx-size"},
    {"--n-ctx", "--ctx-size"},
    {"--num-ctx", "--ctx-size"},
    {"--context", "--ctx-size"},
    {"--context-size", "--ctx-size"},
    {"--context-length", "--ctx-size"},
    {"--n-threads", "--threads"},
    {"--num-thread", "--threads"},
    {"--num-threads", "--threads"},
    {"--model-path", "--model"},
    {"-hf", "--model"},
    {"-hfr", "--model"},
    {"--hf-repo", "--model"},
    {"--hf-path", "--model"},
    {"--template-var", "--chat-template-var"},
    {"--ignore-chat-template", "--raw"},
    {"--no-chat-template", "--raw"},
    {"--stop-sequence", "--stop"},
    {"--prompt-file", "--file"},
    {"--n-depth", "--depth"},
};

struct Advice {
  std::string_view spellings;  ///< separated by spaces
  std::string_view text;
};

constexpr std::string_view kProcessor =
    "use --device for the GPU or GPUs (cuda:0,cuda:1) and, to keep the first layers on the CPU, "
    "--gpu-layers, with verbs that have them; else leave it out";
constexpr std::string_view kChunks = "the size of prefill chunks needs no setting: leave it out";
constexpr std::string_view kMapped =
    "weights are mapped while they are read and then kept in memory: leave it out";
constexpr std::string_view kNoFetch =
    "use 'veery pull ORG/NAME' first; HF_TOKEN holds a token, HF_ENDPOINT another hub";
constexpr std::string_view kNames =
    "use ORG/NAME:FILE as MODEL: the FILE of ORG/NAME in Hugging Face's cache";
constexpr std::string_view kChat =
    "leave it out: without -p, -f and --ids 'run' is a chat on a terminal; with one of them it "
    "answers once";
constexpr std::string_view kPrompt = "only the answer is printed: leave it out";
constexpr std::string_view kSampling =
    "this sampler does not exist; 'veery run --help' lists those that do";
constexpr std::string_view kAdapter =
    "adapters are not supported yet; merge them into the weights first";
constexpr std::string_view kDraft =
    "leave it out: the number of draft tokens adapts itself; --draft-max N limits it";
constexpr std::string_view kMedia =
    "images are not supported yet; 'veery transcribe' transcribes speech";
constexpr std::string_view kServer = "use 'veery serve MODEL' to start a server";
constexpr std::string_view kCacheTypes =
    "use -ctk and -ctv: the types of keys and values in the KV cache, such as -ctk q8_0 -ctv q8_0";
constexpr std::string_view kRope = "RoPE is set by the model's file: leave it out";
constexpr std::string_view kContext =
    "an answer ends when the context is full; a chat of 'run' has --context-shift; use -c for the "
    "context length";
constexpr std::string_view kTemplate =
    "use --chat-template NAME|TEXT or --chat-template-file FILE for another template, or --raw "
    "for none";
constexpr std::string_view kReasoning =
    "'run' has --think [LEVEL], --no-think and --hide-thinking; --json separates the reasoning";
constexpr std::string_view kPromptCache =
    "use --session FILE: it keeps the KV cache for the next call";
constexpr std::string_view kLog =
    "there is no log: -q leaves out the summary, --json has the timings";

constexpr Advice kFlagAdvice[] = {
    {"-ngl --gpu-layers --n-gpu-layers --num-gpu -sm --split-mode -ts --tensor-split -mg "
     "--main-gpu -dev --device --list-devices -nkvo --no-kv-offload --kv-offload --op-offload "
     "--no-op-offload -cmoe --cpu-moe -ncmoe --n-cpu-moe -ot --override-tensor",
     kProcessor},
    {"-b --batch --batch-size -ub --ubatch-size --n-batch --num-batch --prefill-step-size",
     kChunks},
    {"-fa --flash-attn --flash-attention --no-flash-attn",
     "attention needs no setting: leave it out"},
    {"--mlock --no-mlock --mmap --no-mmap --use-mmap --use-mlock -dio --direct-io", kMapped},
    {"-hft --hf-token -mu --model-url -dr --docker-repo --offline --trust-remote-code", kNoFetch},
    {"-hf -hfr --hf-repo --hf-path -hff --hf-file", kNames},
    {"-cnv --conversation -i --interactive -if --interactive-first -mli --multiline-input -st "
     "--single-turn --simple-io",
     kChat},
    {"-no-cnv --no-conversation -nocnv", "use --raw: the text is continued as it is"},
    {"--jinja", "chat templates are always rendered: leave it out"},
    {"--no-jinja", "use --raw for a prompt without the chat template"},
    {"--chat-template-kwargs --chat-template-config",
     "use --template-arg NAME=VALUE, once for each variable"},
    {"--use-default-chat-template --in-prefix --in-suffix --in-prefix-bos --prefill-response",
     kTemplate},
    {"--no-display-prompt --display-prompt", kPrompt},
    {"-co --color --no-color --colors", "NO_COLOR=1 switches colours off: leave it out"},
    {"-e --escape --no-escape",
     "texts have no escapes; write a line break as $'\\n' in the shell, or use -f FILE"},
    {"--max-kv-size --rope-context --keep --num-keep --context-shift --no-context-shift", kContext},
    {"--kv-bits --kv-group-size --quantized-kv-start --kv-cache-type", kCacheTypes},
    {"--lora --lora-scaled --lora-base --adapter --adapter-path --control-vector "
     "--control-vector-scaled --control-vector-layer-range",
     kAdapter},
    {"-bs --backend-sampling", kSampling},
    {"--format",
     "use --json-schema SCHEMA for an answer in JSON ('{}': any), --json to print the answer "
     "with its ids"},
    {"--samplers --sampling-seq --sampler-seq --tfs --adaptive-target --adaptive-decay "
     "--min-tokens-to-keep --xtc-special-tokens --num-beams --do-sample",
     kSampling},
    {"--draft-min --draft-n-min --draft-p-min -cd --ctx-size-draft -ngld --gpu-layers-draft",
     kDraft},
    {"--mmproj -mm --mmproj-url --image --audio --video", kMedia},
    {"--host --port --api-key --slots --metrics -np --parallel --timeout", kServer},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --override-kv -gan "
     "--grp-attn-n -gaw --grp-attn-w",
     kRope},
    {"-r --reverse-prompt", "use --stop TEXT: the answer ends before it"},
    {"-sysf --system-prompt-file", "use --system \"$(cat FILE)\""},
    {"-bf --binary-file", "use -f FILE"},
    {"-sp --special", "special tokens are not printed; --json has the ids"},
    {"--eos-token --extra-eos-token", "use --stop TEXT: the answer ends before it"},
    {"--think --hidethinking --no-think --reasoning --reasoning-format --reasoning-budget -rea",
     kReasoning},
    {"--prompt-cache --prompt-cache-all --prompt-cache-ro --prompt-cache-file --slot-save-path",
     kPromptCache},
    {"--save-all-logits", "use 'veery logits MODEL --all --json'"},
    {"--keepalive --keep-alive", "the model stays in memory while the program runs: leave it out"},
    {"-v --verbose -lv --verbosity --log-verbosity --log-disable --log-enable --log-file "
     "--log-colors --log-prefix --log-timestamps --no-perf --perf --nowordwrap -ptc "
     "--print-token-count --show-timings --verbose-prompt",
     kLog},
    {"--warmup --no-warmup", "'bench' warms up each test once, other verbs do not: leave it out"},
    {"--numa -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll --cpu-mask-batch",
     "use taskset or numactl to choose cores, -t for their number"},
    {"-tb --threads-batch", "use -t: prefill and decoding use the same threads"},
    {"--swa-full --kv-unified -kvu --no-repack -nr --repack -dt --defrag-thold --no-host "
     "--check-tensors --group-attn",
     "this needs no setting: leave it out ('veery plan' shows the kernels)"},
    {"--stdin", "leave it out: without -p and -f the text is read from standard input"},
    {"--no-bos", "use --no-special, or --ids for exact tokens"},
    {"--show-count", "use --json and count the ids"},
    {"--chunks --ppl-stride --ppl-output-type --all-logits --kl-divergence "
     "--kl-divergence-base --hellaswag --winogrande --multiple-choice",
     "use -f FILE -c WINDOW for the perplexity, --reference MODEL for the divergence"},
    {"-pg --delay -o --output -oe --output-err",
     "use -p and -n for the two tests, --sweep for lists, --json for programs"},
    {"-embd --embedding --embeddings --pooling", "use 'veery embed MODEL'"},
    {"--outtype", "use --type"},
    {"--outfile --mlx-path --save-path", "name the output after the input: IN OUT"},
    {"--upload-repo", "veery uploads nothing"},
};

constexpr Advice kVerbAdvice[] = {
    {"download get", "use 'veery pull ORG/NAME'"},
    {"push upload", "veery uploads nothing"},
    {"server llama-server mlx_lm.server start", kServer},
    {"stop ps", "'veery serve MODEL' runs until Ctrl-C; GET /v1/models lists its models"},
    {"generate complete completion llama-cli llama-run mlx_lm.generate main ask prompt infer",
     "use 'veery run MODEL -p TEXT'"},
    {"chat llama-chat mlx_lm.chat", "use 'veery run MODEL': on a terminal it is a chat"},
    {"ls models", "use 'veery list'"},
    {"rm cp create", "veery does not create or remove models; 'veery list' shows where they are"},
    {"info inspect describe metadata gguf-dump", "use 'veery show MODEL'"},
    {"llama-tokenize tokens encode", "use 'veery tokenize MODEL -p TEXT'"},
    {"detokenize decode", "veery cannot turn ids into text yet"},
    {"llama-perplexity ppl", "use 'veery perplexity MODEL -f FILE'"},
    {"evaluate eval mlx_lm.evaluate", "use 'veery perplexity MODEL -f FILE'"},
    {"llama-bench benchmark mlx_lm.benchmark", "use 'veery bench MODEL'"},
    {"llama-quantize quant", "use 'veery quantize IN OUT TYPE'"},
    {"mlx_lm.convert convert_hf_to_gguf convert-hf-to-gguf export", "use 'veery convert IN OUT'"},
    {"fuse lora train finetune mlx_lm.lora mlx_lm.fuse", kAdapter},
    {"llama-imatrix", "use 'veery imatrix MODEL -f FILE'"},
    {"gguf-split llama-gguf-split split merge",
     "use 'veery convert IN OUT --split-size SIZE'; any part of a split file can be MODEL"},
    {"check test validate", "use 'veery verify MODEL'"},
    {"embedding embeddings", "use 'veery embed MODEL'"},
    {"reranking", "use 'veery rerank MODEL'"},
    {"label labels zero-shot", "use 'veery classify MODEL --labels A,B'"},
    {"whisper whisper-cli", "use 'veery transcribe MODEL FILE'"},
    {"version", "use 'veery --version'"},
};

bool has_word(std::string_view list, std::string_view word) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

std::string_view find_advice(std::span<const Advice> table, std::string_view word) {
  for (const Advice& advice : table)
    if (has_word(advice.spellings, word)) return advice.text;
  return {};
}

// "--ctx_size" as "--ctx-size".
std::string with_dashes(std::string_view flag) {
  std::string text(flag);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

// Damerau-Levenshtein distance with adjacent transpositions (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> two_before, before(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) before[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({changed, before[j] + 1, now[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], two_before[j - 2] + 1);
    }
    two_before = before;
    std::swap(before, now);
  }
  return before[b.size()];
}

}  // namespace

std::vector<std::string> synonyms(std::string_view flag) {
  const std::string dashed = with_dashes(flag);
  std::vector<std::string> others;
  if (dashed != flag && flag.starts_with("--")) others.push_back(dashed);
  for (const Synonym& row : kSynonyms)
    if (row.theirs == dashed) others.emplace_back(row.ours);
  // The names that sampling parameters have in the server and in chat files.
  for (const SamplingParameter& row : sampling_parameters()) {
    std::vector<std::string_view> names = row.fields();
    names.push_back(row.name);
    for (const std::string_view name : names)
      if (with_dashes("--" + std::string(name)) == dashed && row.flag() != dashed)
        others.push_back(row.flag());
  }
  return others;
}

std::string_view flag_advice(std::string_view flag) {
  return find_advice(kFlagAdvice, with_dashes(flag));
}

std::string_view verb_advice(std::string_view verb) { return find_advice(kVerbAdvice, verb); }

std::string nearest(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kLongest = 64;  // bounds the time; no name is that long
  if (word.size() > kLongest) return {};
  std::string_view best;
  size_t least = SIZE_MAX;
  for (const std::string_view name : names) {
    const size_t far = distance(word, name);
    const size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size());
    const size_t allowed = letters < 5 ? 1 : 2;
    if (far <= allowed && far < least) {
      least = far;
      best = name;
    }
  }
  return std::string(best);
}

}  // namespace veery::cli
