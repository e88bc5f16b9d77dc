#include "text/grammar/grammar.h"

#include "base/error.h"

#ifdef VEERY_XGRAMMAR
#include <dlpack/dlpack.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "base/printable.h"

namespace veery {

struct Grammar::Impl {
  xgrammar::CompiledGrammar compiled;
};

struct GrammarCompiler::Impl {
  Impl(const Tokenizer& of, int64_t rows) : tokenizer(of), vocabulary(rows) {}

  /// Of JSON, or of texts with control characters.
  xgrammar::GrammarCompiler& compiler(bool controls);

  const Tokenizer& tokenizer;
  int64_t vocabulary;
  std::mutex mutex;
  std::unique_ptr<xgrammar::GrammarCompiler> compilers[2];  // made when first needed
};

struct GrammarState::Impl {
  explicit Impl(std::shared_ptr<const Grammar> of)
      : grammar(std::move(of)), matcher(grammar->impl().compiled) {}
  std::shared_ptr<const Grammar> grammar;
  xgrammar::GrammarMatcher matcher;
  std::vector<int32_t> bits;
};

namespace {

// One line, a space behind each comma and colon: where white space may be any, small models never
// end it.
constexpr bool kAnyWhitespace = false;

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// The first line of what the library says.
template <typename Make>
std::shared_ptr<const Grammar> guarded(std::mutex& mutex, const char* what, const Make& make) {
  try {
    const std::lock_guard lock(mutex);
    return std::make_shared<const Grammar>(
        std::make_shared<const Grammar::Impl>(Grammar::Impl{make()}));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kLimit, "{}: it is too large", what);
  } catch (const std::exception& error) {
    std::string text = error.what();
    text.resize(std::min(text.find('\n'), text.size()));
    // "[time] file.cc:12: what"
    if (const size_t file = text.find(".cc:"); file != std::string::npos)
      if (const size_t end = text.find(": ", file); end != std::string::npos)
        text.erase(0, end + 2);
    throw Error(ErrorKind::kInput, "{}: {}", what, printable(text, 300));
  }
}

}  // namespace

// The library lets control characters stand in strings of JSON, which JSON forbids (RFC 8259,
// section 7); in one line they stand nowhere. A token without text is never chosen.
xgrammar::GrammarCompiler& GrammarCompiler::Impl::compiler(bool controls) {
  auto& made = compilers[controls ? 1 : 0];
  if (!made) {
    std::vector<std::string> pieces;
    for (int32_t id = 0; id < tokenizer.size() && id < vocabulary; ++id) {
      pieces.push_back(tokenizer.piece(id));
      if (!controls && has_control(pieces.back())) pieces.back().clear();
    }
    const xgrammar::TokenizerInfo tokens(pieces, xgrammar::VocabType::RAW,
                                         static_cast<int>(vocabulary), tokenizer.special().ends);
    made = std::make_unique<xgrammar::GrammarCompiler>(tokens, /*max_threads=*/1,
                                                       /*cache_enabled=*/true, int64_t{64} << 20);
  }
  return *made;
}

bool GrammarCompiler::available() { return true; }

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int64_t vocabulary)
    : impl_(std::make_unique<Impl>(tokenizer, vocabulary)) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const Grammar> GrammarCompiler::json_schema(const Json& schema) {
  check_schema(schema);
  return guarded(impl_->mutex, "schema", [&] {
    return impl_->compiler(false).CompileJSONSchema(dump_json(schema), kAnyWhitespace);
  });
}

std::shared_ptr<const Grammar> GrammarCompiler::any_json() {
  return guarded(impl_->mutex, "JSON", [&] {
    return impl_->compiler(false).CompileJSONSchema(R"({"type":"object"})", kAnyWhitespace);
  });
}

std::shared_ptr<const Grammar> GrammarCompiler::regex(const std::string& pattern) {
  return guarded(impl_->mutex, "regex",
                 [&] { return impl_->compiler(true).CompileRegex(pattern); });
}

std::shared_ptr<const Grammar> GrammarCompiler::ebnf(const std::string& text) {
  return guarded(impl_->mutex, "grammar",
                 [&] { return impl_->compiler(true).CompileGrammar(text); });
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : impl_(std::make_unique<Impl>(std::move(grammar))) {}
GrammarState::~GrammarState() = default;

void GrammarState::mask(std::span<float> logits) {
  if (impl_->matcher.IsTerminated()) return;
  std::vector<int32_t>& bits = impl_->bits;
  bits.assign((logits.size() + 31) / 32, -1);
  int64_t size = std::ssize(bits);
  DLTensor tensor{};
  tensor.data = bits.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &size;
  if (!impl_->matcher.FillNextTokenBitmask(&tensor)) return;
  for (size_t word = 0; word < bits.size(); ++word) {
    if (bits[word] == -1) continue;
    const size_t end = std::min(logits.size(), (word + 1) * 32);
    for (size_t id = word * 32; id < end; ++id)
      if ((static_cast<uint32_t>(bits[word]) >> (id % 32) & 1) == 0)
        logits[id] = -std::numeric_limits<float>::infinity();
  }
}

void GrammarState::accept(int32_t id) {
  if (!impl_->matcher.IsTerminated() && !impl_->matcher.AcceptToken(id))
    throw Error(ErrorKind::kBug, "the grammar does not take token {}", id);
}

std::string GrammarState::forced_text() {
  return over() ? std::string() : impl_->matcher.FindJumpForwardString();
}

bool GrammarState::over() const { return impl_->matcher.IsTerminated(); }

}  // namespace veery

#else

namespace veery {

struct Grammar::Impl {};
struct GrammarCompiler::Impl {};
struct GrammarState::Impl {};

namespace {
[[noreturn]] void refuse() {
  throw Error(ErrorKind::kUnsupported,
              "this veery was built without xgrammar, which structured answers need "
              "(scripts/setup.sh fetches it)");
}
}  // namespace

bool GrammarCompiler::available() { return false; }
GrammarCompiler::GrammarCompiler(const Tokenizer&, int64_t) { refuse(); }
GrammarCompiler::~GrammarCompiler() = default;
std::shared_ptr<const Grammar> GrammarCompiler::json_schema(const Json&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::any_json() { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::regex(const std::string&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::ebnf(const std::string&) { refuse(); }
GrammarState::GrammarState(std::shared_ptr<const Grammar>) { refuse(); }
GrammarState::~GrammarState() = default;
void GrammarState::mask(std::span<float>) {}
void GrammarState::accept(int32_t) {}
std::string GrammarState::forced_text() { return {}; }
bool GrammarState::over() const { return false; }

}  // namespace veery

#endif
