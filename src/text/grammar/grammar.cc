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
  Impl(const Tokenizer& of, int64_t rows, const AnswerFormat& format)
      : tokenizer(of), vocabulary(rows), marks(format) {}

  /// What tokens there are.
  enum class Tokens { kWithoutControls, kText, kTextAndMarks };
  std::string piece(int32_t id, Tokens tokens) const;
  xgrammar::GrammarCompiler& compiler(Tokens tokens);

  const Tokenizer& tokenizer;
  int64_t vocabulary;
  AnswerFormat marks;
  std::mutex mutex;
  std::unique_ptr<xgrammar::GrammarCompiler> compilers[3];  // made when first needed
};

struct GrammarState::Impl {
  explicit Impl(std::shared_ptr<const Grammar> of)
      : grammar(std::move(of)), matcher(grammar->impl().compiled) {}
  std::shared_ptr<const Grammar> grammar;
  xgrammar::GrammarMatcher matcher;
  std::vector<uint32_t> bits;
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
std::string GrammarCompiler::Impl::piece(int32_t id, Tokens tokens) const {
  const bool mark = tokens == Tokens::kTextAndMarks && marks.shows(tokenizer.token(id));
  std::string text = tokenizer.piece(id, mark);
  if (tokens == Tokens::kWithoutControls && has_control(text)) text.clear();
  return text;
}

xgrammar::GrammarCompiler& GrammarCompiler::Impl::compiler(Tokens tokens) {
  auto& made = compilers[static_cast<size_t>(tokens)];
  if (!made) {
    std::vector<std::string> pieces;
    for (int32_t id = 0; id < tokenizer.size() && id < vocabulary; ++id)
      pieces.push_back(piece(id, tokens));
    const xgrammar::TokenizerInfo info(pieces, xgrammar::VocabType::RAW,
                                       static_cast<int>(vocabulary), tokenizer.special().ends);
    made = std::make_unique<xgrammar::GrammarCompiler>(info, /*max_threads=*/1,
                                                       /*cache_enabled=*/true, int64_t{64} << 20);
  }
  return *made;
}

bool GrammarCompiler::available() { return true; }

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const AnswerFormat& marks)
    : impl_(std::make_unique<Impl>(tokenizer, vocabulary, marks)) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const Grammar> GrammarCompiler::json_schema(const Json& schema) {
  check_schema(schema);
  return guarded(impl_->mutex, "schema", [&] {
    return impl_->compiler(Impl::Tokens::kWithoutControls)
        .CompileJSONSchema(dump_json(schema), kAnyWhitespace);
  });
}

std::shared_ptr<const Grammar> GrammarCompiler::regex(const std::string& pattern) {
  return guarded(impl_->mutex, "regex",
                 [&] { return impl_->compiler(Impl::Tokens::kText).CompileRegex(pattern); });
}

std::shared_ptr<const Grammar> GrammarCompiler::ebnf(const std::string& text) {
  return guarded(impl_->mutex, "grammar",
                 [&] { return impl_->compiler(Impl::Tokens::kText).CompileGrammar(text); });
}

namespace {

// A text in which the id of a call may be any.
void add_text(std::string_view text, Json& elements) {
  while (!text.empty()) {
    const size_t id = text.find(CallForm::kId);
    if (id > 0) elements.push_back({{"type", "const_string"}, {"value", text.substr(0, id)}});
    if (id == std::string_view::npos) return;
    elements.push_back({{"type", "regex"}, {"pattern", "[a-zA-Z0-9]{9}"}});
    text.remove_prefix(id + CallForm::kId.size());
  }
}

Json sequence(Json elements) { return {{"type", "sequence"}, {"elements", std::move(elements)}}; }

// One call of one of the tools, from its name to its arguments.
Json any_call(const CallForm& form, std::span<const CallableTool> tools) {
  Json choices = Json::array();
  for (const CallableTool& tool : tools) {
    const std::string schema =
        tool.parameters.is_null() ? R"({"type":"object"})" : dump_json(tool.parameters);
    Json elements = Json::array();
    add_text(tool.name + form.middle, elements);
    elements.push_back(
        {{"type", "grammar"},
         {"grammar", xgrammar::Grammar::FromJSONSchema(schema, kAnyWhitespace).ToString()}});
    choices.push_back(sequence(std::move(elements)));
  }
  return {{"type", "or"}, {"elements", std::move(choices)}};
}

}  // namespace

// White space may come first: that between reasoning and a call is no part of the form.
std::shared_ptr<const Grammar> GrammarCompiler::calls(const CallForm& form,
                                                      std::span<const CallableTool> tools,
                                                      bool several) {
  for (const CallableTool& tool : tools)
    if (!tool.parameters.is_null()) check_schema(tool.parameters);
  return guarded(impl_->mutex, "tools", [&] {
    const Json call = any_call(form, tools);
    Json elements = Json::array({{{"type", "regex"}, {"pattern", "\\n{0,2}"}}});
    add_text(form.open, elements);
    elements.push_back(call);
    if (several && !form.joint.empty()) {
      Json next = Json::array();
      add_text(form.joint, next);
      next.push_back(call);
      elements.push_back({{"type", "star"}, {"content", sequence(std::move(next))}});
    }
    add_text(form.close, elements);
    const Json tag = {{"type", "structural_tag"}, {"format", sequence(std::move(elements))}};
    return impl_->compiler(Impl::Tokens::kTextAndMarks).CompileStructuralTag(dump_json(tag));
  });
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : impl_(std::make_unique<Impl>(std::move(grammar))) {}
GrammarState::~GrammarState() = default;

bool GrammarState::mask(std::span<uint32_t> bits) {
  if (impl_->matcher.IsTerminated()) return false;
  std::ranges::fill(bits, ~uint32_t{0});
  int64_t size = std::ssize(bits);
  DLTensor tensor{};
  tensor.data = bits.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &size;
  return impl_->matcher.FillNextTokenBitmask(&tensor);
}

void GrammarState::mask(std::span<float> logits) {
  std::vector<uint32_t>& bits = impl_->bits;
  bits.resize((logits.size() + 31) / 32);
  if (!mask(bits)) return;
  for (size_t word = 0; word < bits.size(); ++word) {
    if (bits[word] == ~uint32_t{0}) continue;
    const size_t end = std::min(logits.size(), (word + 1) * 32);
    for (size_t id = word * 32; id < end; ++id)
      if ((bits[word] >> (id % 32) & 1) == 0) logits[id] = -std::numeric_limits<float>::infinity();
  }
}

void GrammarState::accept(int32_t id) {
  if (!over() && !takes(id)) throw Error(ErrorKind::kBug, "the grammar does not take token {}", id);
}

bool GrammarState::takes(int32_t id) { return !over() && impl_->matcher.AcceptToken(id); }

void GrammarState::take_back(int32_t count) {
  if (count > 0) impl_->matcher.Rollback(count);
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
GrammarCompiler::GrammarCompiler(const Tokenizer&, int64_t, const AnswerFormat&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::calls(const CallForm&,
                                                      std::span<const CallableTool>, bool) {
  refuse();
}
GrammarCompiler::~GrammarCompiler() = default;
std::shared_ptr<const Grammar> GrammarCompiler::json_schema(const Json&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::regex(const std::string&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::ebnf(const std::string&) { refuse(); }
GrammarState::GrammarState(std::shared_ptr<const Grammar>) { refuse(); }
GrammarState::~GrammarState() = default;
bool GrammarState::mask(std::span<uint32_t>) { return false; }
void GrammarState::mask(std::span<float>) {}
void GrammarState::accept(int32_t) {}
bool GrammarState::takes(int32_t) { return true; }
void GrammarState::take_back(int32_t) {}
std::string GrammarState::forced_text() { return {}; }
bool GrammarState::over() const { return false; }

}  // namespace veery

#endif
