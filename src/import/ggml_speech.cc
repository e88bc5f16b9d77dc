#include "import/ggml_speech.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "file/folder/row_sources.h"
#include "import/alignment_heads.h"
#include "import/folder/speech_keys.h"
#include "import/names/whisper_names.h"
#include "text/common/byte_alphabet.h"
#include "text/format/tiktoken_file.h"
#include "text/languages.h"
#include "text/vocabulary.h"

namespace veery {
namespace {

constexpr uint32_t kMagic = 0x67676d6c;

/// The header of such a file, in file order.
struct Sizes {
  int32_t vocab = 0;
  int32_t source_positions = 0, source_width = 0, source_heads = 0, source_layers = 0;
  int32_t positions = 0, width = 0, heads = 0, layers = 0;
  int32_t bands = 0, type = 0;
};

/// Reads a file sequentially.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  bool at_end() const { return at_ == bytes_.size(); }
  std::span<const std::byte> take(uint64_t count, const char* what) {
    if (count > bytes_.size() - at_)
      throw Error(ErrorKind::kFormat, "{}: {} at byte {} needs {} bytes, found {}", name_, what,
                  at_, count, bytes_.size() - at_);
    const auto part = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return part;
  }
  int32_t number(const char* what, int32_t least, int32_t most) {
    int32_t value = 0;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    if (value < least || value > most)
      throw Error(ErrorKind::kFormat, "{}: {} is {}, expected {} to {}", name_, what, value, least,
                  most);
    return value;
  }
  std::string text(int32_t bytes, const char* what) {
    const auto part = take(static_cast<uint64_t>(bytes), what);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 0;
};

constexpr int32_t kMost = 1 << 20;  // limit of any size; real models are far smaller

Sizes read_sizes(Bytes& bytes) {
  Sizes s;
  const std::pair<const char*, int32_t*> numbers[] = {{"n_vocab", &s.vocab},
                                                      {"n_audio_ctx", &s.source_positions},
                                                      {"n_audio_state", &s.source_width},
                                                      {"n_audio_head", &s.source_heads},
                                                      {"n_audio_layer", &s.source_layers},
                                                      {"n_text_ctx", &s.positions},
                                                      {"n_text_state", &s.width},
                                                      {"n_text_head", &s.heads},
                                                      {"n_text_layer", &s.layers},
                                                      {"n_mels", &s.bands}};
  for (const auto& [name, number] : numbers) *number = bytes.number(name, 1, kMost);
  s.type = bytes.number("ftype", 0, std::numeric_limits<int32_t>::max());
  const int32_t bands = bytes.number("the number of mel filters", 1, kMost);
  const int32_t frequencies = bytes.number("the number of frequencies", 1, kMost);
  bytes.take(uint64_t{4} * static_cast<uint64_t>(bands) * static_cast<uint64_t>(frequencies),
             "the mel filters");
  return s;
}

void set_sizes(const Sizes& s, int64_t hidden, int64_t source_hidden, Metadata& metadata) {
  const std::pair<const char*, int64_t> keys[] = {{"context_length", s.positions},
                                                  {"embedding_length", s.width},
                                                  {"block_count", s.layers},
                                                  {"feed_forward_length", hidden},
                                                  {"attention.head_count", s.heads},
                                                  {"attention.head_count_kv", s.heads},
                                                  {"encoder.block_count", s.source_layers},
                                                  {"encoder.attention.head_count", s.source_heads},
                                                  {"encoder.feed_forward_length", source_hidden},
                                                  {"encoder.context_length", s.source_positions},
                                                  {"encoder.num_mel_bins", s.bands}};
  metadata.set("general.architecture", std::string("whisper"));
  for (const auto& [key, value] : keys) metadata.set(std::string("whisper.") + key, value);
  metadata.set("whisper.attention.layer_norm_epsilon", 1e-5);
  // Defaults of OpenAI's code; -1 stands for the usual tokens.
  metadata.set(kSuppressKey, std::vector<int64_t>{-1});
  metadata.set(kSuppressFirstKey, std::vector<int64_t>{-1});
  metadata.set(kFirstTimeKey, int64_t{50});
  constexpr int32_t kMultilingualVocab = 51865;
  metadata.set(kAlignmentKey,
               usual_alignment_heads({.layers = s.layers,
                                      .heads = s.heads,
                                      .bands = s.bands,
                                      .multilingual = s.vocab >= kMultilingualVocab}));
}

// Returns the special tokens, which the file omits; language tokens fill the gap between the
// others.
std::vector<std::string> special_tokens(int64_t count, int64_t times, const std::string& name) {
  constexpr std::array kBehind = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                  "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};
  const int64_t codes = count - times - std::ssize(kBehind) - 2;
  if (codes < 0 || codes > std::ssize(languages()))
    throw Error(ErrorKind::kFormat,
                "{}: {} tokens after the text tokens leave {} for languages, expected 0 to {}",
                name, count, codes, languages().size());
  std::vector<std::string> all = {"<|endoftext|>", "<|startoftranscript|>"};
  for (const Language& language : languages().first(static_cast<size_t>(codes)))
    all.push_back(fmt::format("<|{}|>", language.code));
  all.insert(all.end(), kBehind.begin(), kBehind.end());
  for (int64_t i = 0; i < times; ++i)
    all.push_back(fmt::format("<|{:.2f}|>", 0.02 * static_cast<double>(i)));
  return all;
}

// Reads a byte-level BPE vocabulary; the merges are derived from token ranks.
void read_vocabulary(Bytes& bytes, const Sizes& s, const std::string& name, Metadata& metadata) {
  constexpr int32_t kLongest = 4096;
  const int32_t count = bytes.number("the number of tokens", 1, s.vocab);
  TiktokenModel model{.tokens = {}, .rule = "gpt-2"};
  for (int32_t i = 0; i < count; ++i) {
    const std::string token =
        bytes.text(bytes.number("the length of a token", 0, kLongest), "a token");
    if (token == "<|endoftext|>") break;
    model.tokens.push_back(to_alphabet(token));
  }
  for (auto i = static_cast<int32_t>(model.tokens.size()) + 1; i < count; ++i)
    bytes.take(static_cast<uint64_t>(bytes.number("the length of a token", 0, kLongest)),
               "a token");
  const std::vector<std::string_view> views(model.tokens.begin(), model.tokens.end());
  const Vocabulary vocabulary(views, {}, true);
  std::vector<std::string> merges;
  for (const MergeText& merge : tiktoken_merges(model, vocabulary))
    merges.push_back(fmt::format("{} {}", merge.left, merge.right));
  const auto text = std::ssize(model.tokens);
  std::vector<std::string> tokens = model.tokens;
  std::vector<int64_t> types(tokens.size(), 1);  // normal
  for (std::string& token : special_tokens(s.vocab - text, int64_t{s.source_positions} + 1, name)) {
    tokens.push_back(std::move(token));
    types.push_back(3);  // control
  }
  metadata.set("tokenizer.ggml.model", std::string("gpt2"));
  metadata.set("tokenizer.ggml.pre", std::string("gpt-2"));
  metadata.set_texts("tokenizer.ggml.tokens", std::move(tokens));
  metadata.set("tokenizer.ggml.token_type", std::move(types));
  metadata.set_texts("tokenizer.ggml.merges", std::move(merges));
  metadata.set("tokenizer.ggml.eos_token_id", int64_t{text});
  metadata.set("tokenizer.ggml.bos_token_id", int64_t{text + 1});
  metadata.set("tokenizer.ggml.add_bos_token", false);
  metadata.set("tokenizer.ggml.add_eos_token", false);
}

// Names of layer parts in OpenAI's code and in transformers folders.
constexpr std::pair<std::string_view, std::string_view> kParts[] = {
    {".attn_ln.", ".self_attn_layer_norm."},
    {".attn.query.", ".self_attn.q_proj."},
    {".attn.key.", ".self_attn.k_proj."},
    {".attn.value.", ".self_attn.v_proj."},
    {".attn.out.", ".self_attn.out_proj."},
    {".cross_attn_ln.", ".encoder_attn_layer_norm."},
    {".cross_attn.query.", ".encoder_attn.q_proj."},
    {".cross_attn.key.", ".encoder_attn.k_proj."},
    {".cross_attn.value.", ".encoder_attn.v_proj."},
    {".cross_attn.out.", ".encoder_attn.out_proj."},
    {".mlp_ln.", ".final_layer_norm."},
    {".mlp.0.", ".fc1."},
    {".mlp.2.", ".fc2."},
    {".blocks.", ".layers."},
    {"encoder.ln_post.", "encoder.layer_norm."},
    {"decoder.ln.", "decoder.layer_norm."},
    {"decoder.token_embedding.", "decoder.embed_tokens."},
    {".positional_embedding", ".embed_positions.weight"}};

std::string our_tensor(std::string name) {
  for (const auto& [theirs, ours] : kParts)
    if (const size_t at = name.find(theirs); at != std::string::npos)
      name.replace(at, theirs.size(), ours);
  return whisper_name(name);
}

TensorView read_tensor(Bytes& bytes, const std::string& file) {
  const int32_t rank = bytes.number("the rank of a tensor", 1, 4);
  const int32_t length = bytes.number("the length of a name", 1, 256);
  const int32_t type = bytes.number("the type of a tensor", 0, 255);
  TensorView tensor;
  for (int32_t i = 0; i < rank; ++i)
    tensor.shape.insert(tensor.shape.begin(), bytes.number("a size of a tensor", 1, 1 << 24));
  const std::string name = bytes.text(length, "a name");
  const auto dtype = dtype_from_ggml(static_cast<uint32_t>(type));
  if (!dtype)
    throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' has the unknown type {}", file,
                printable(name), type);
  tensor.dtype = *dtype;
  tensor.name = our_tensor(name);
  if (tensor.name.empty())
    throw Error(ErrorKind::kUnsupported, "{}: tensor '{}' is not part of a whisper model", file,
                printable(name));
  double elements = 1;
  for (const int64_t size : tensor.shape) elements *= static_cast<double>(size);
  if (elements > 1e12 || tensor.shape.back() % info(*dtype).block != 0)
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' has rows that are not whole blocks of {}",
                file, printable(name), info(*dtype).name);
  const auto data = bytes.take(tensor.bytes(), "a tensor");
  const size_t row = tensor.bytes() / static_cast<size_t>(tensor.elements() / tensor.columns());
  tensor.source = make_copy(data, row);  // tensors may be unaligned
  if (tensor.name.ends_with(".bias")) tensor = reshaped(tensor, {tensor.elements()});
  if (tensor.name.starts_with("enc.conv") && tensor.shape.size() == 3)
    tensor = reshaped(transposed(tensor), {tensor.shape[0], tensor.shape[1] * tensor.shape[2]});
  return tensor;
}

int64_t rows_of(const ModelFile& file, const char* tensor) { return file.at(tensor).shape[0]; }

}  // namespace

bool is_ggml_speech(std::span<const std::byte> bytes) {
  uint32_t magic = 0;
  if (bytes.size() < sizeof magic) return false;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == kMagic;
}

ModelFile parse_ggml_speech(std::span<const std::byte> all, const std::string& name) {
  if (!is_ggml_speech(all))
    throw Error(ErrorKind::kFormat,
                "{}: is not a whisper.cpp model, expected a file that begins with 'ggml'", name);
  Bytes bytes(all.subspan(sizeof kMagic), name);
  const Sizes s = read_sizes(bytes);
  if (s.source_width != s.width)
    throw Error(ErrorKind::kUnsupported, "{}: n_audio_state is {}, expected n_text_state, {}", name,
                s.source_width, s.width);
  ModelFile file;
  file.path = name;
  file.container = Container::kGguf;
  read_vocabulary(bytes, s, name, file.metadata);
  while (!bytes.at_end()) {
    TensorView tensor = read_tensor(bytes, name);
    if (file.find(tensor.name) != nullptr)
      throw Error(ErrorKind::kFormat, "{}: two tensors map to {}", name, tensor.name);
    file.tensors.push_back(std::move(tensor));
  }
  set_sizes(s, rows_of(file, "blk.0.ffn_up.weight"), rows_of(file, "enc.blk.0.ffn_up.weight"),
            file.metadata);
  return file;
}

ModelFile open_ggml_speech(const std::string& path) {
  auto mapping = std::make_shared<MappedFile>(path);
  ModelFile file = mapping->checked([&] { return parse_ggml_speech(mapping->bytes(), path); });
  file.mappings.push_back(std::move(mapping));
  return file;
}

}  // namespace veery
