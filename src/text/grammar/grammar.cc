#include "text/grammar/grammar.h"

#include "base/error.h"

#ifdef VEERY_XGRAMMAR
#include <dlpack/dlpack.h>
#include <xgrammar/work.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "text/grammar/answer_rules.h"
#include "text/grammar/rule_check.h"

namespace veery {

struct Grammar::Impl {
  xgrammar::CompiledGrammar compiled;
};

namespace {

// Limits in steps of xgrammar's parser, which runs about 150 million steps per second. A token
// takes about ten thousand steps, or a few hundred thousand if the whole vocabulary is tried.
constexpr int64_t kCompileSteps = 400'000'000;
constexpr int64_t kTokenSteps = 8'000'000;
// Budget of one answer: kFirstSteps, plus kStepsEach per token up to kFirstSteps. In an ambiguous
// grammar tokens take more and more steps; such an answer fails after a fraction of a second in
// total.
constexpr int64_t kFirstSteps = 16'000'000, kStepsEach = 400'000;
// Limits of the cache of compiled grammars: bytes (by xgrammar's count and ours) and entries.
constexpr size_t kKeptBytes = 32 << 20, kMostKept = 256;
// xgrammar caches the masks of rules across grammars. It counts only part of their memory and so
// exceeds its limit; the cache is cleared every kSharedGrammars grammars.
constexpr int64_t kSharedBytes = 24 << 20;
constexpr int kSharedGrammars = 64;

// Limits the parser's steps on the current thread for the lifetime of the object.
class StepLimit {
 public:
  explicit StepLimit(int64_t steps)
      : before_(std::exchange(xgrammar::WorkLeft(), steps)), steps_(steps) {}
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;
  ~StepLimit() { xgrammar::WorkLeft() = before_; }
  int64_t spent() const { return steps_ - std::max<int64_t>(xgrammar::WorkLeft(), 0); }

 private:
  int64_t before_, steps_;
};

DLTensor mask_tensor(std::span<uint32_t> bits, int64_t& size) {
  size = std::ssize(bits);
  DLTensor tensor{};
  tensor.data = bits.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLInt, 32, 1};
  tensor.shape = &size;
  return tensor;
}

// Returns the first line of an exception's message without xgrammar's log prefix.
std::string first_line(const std::exception& error) {
  std::string text = error.what();
  text.resize(std::min(text.find('\n'), text.size()));
  // Removes "[time] file.cc:12: ".
  if (const size_t file = text.find(".cc:"); file != std::string::npos)
    if (const size_t end = text.find(": ", file); end != std::string::npos) text.erase(0, end + 2);
  return printable(text, 300);
}

}  // namespace

struct GrammarCompiler::Impl {
  Impl(const Tokenizer& of, int64_t rows, const AnswerFormat& format)
      : tokenizer(of), vocabulary(rows), marks(format) {}

  using Made = std::shared_ptr<const Grammar>;
  enum class Tokens { kText, kTextAndMarks };
  std::string piece(int32_t id, Tokens tokens) const;
  xgrammar::GrammarCompiler& compiler(Tokens tokens);
  /// Returns the cached grammar for `key`, or compiles what `make` returns. Error messages begin
  /// with `what`.
  Made find_or_make(const char* what, std::string key, Tokens tokens,
                    const std::function<xgrammar::Grammar()>& make);
  Made compile(Tokens tokens, const xgrammar::Grammar& grammar);
  void check_start(const xgrammar::CompiledGrammar& compiled) const;
  void keep(std::string key, const Made& grammar);

  struct Kept {
    std::string key;
    Made grammar;
    size_t bytes;
  };

  const Tokenizer& tokenizer;
  int64_t vocabulary;
  AnswerFormat marks;
  std::mutex mutex;                                         ///< guards the members below
  std::unique_ptr<xgrammar::GrammarCompiler> compilers[2];  // created on first use
  std::list<Kept> kept;                                     ///< most recently used first
  size_t kept_bytes = 0;
  std::atomic<int> compiled_count = 0;
};

struct GrammarState::Impl {
  explicit Impl(std::shared_ptr<const Grammar> of)
      : grammar(std::move(of)), matcher(grammar->impl().compiled) {}
  /// Calls `use` within the remaining step budget of the token and of the answer.
  template <typename Use>
  auto limited(const Use& use) {
    const StepLimit limit(std::min(steps, kTokenSteps));
    try {
      const auto result = use();
      steps -= limit.spent();
      return result;
    } catch (const xgrammar::WorkSpent&) {
      throw Error(ErrorKind::kLimit,
                  "the grammar is too ambiguous: computing the next tokens takes too many steps");
    }
  }

  std::shared_ptr<const Grammar> grammar;
  xgrammar::GrammarMatcher matcher;
  std::vector<uint32_t> bits;
  int64_t steps = kFirstSteps;
};

std::string GrammarCompiler::Impl::piece(int32_t id, Tokens tokens) const {
  return tokenizer.piece(id, tokens == Tokens::kTextAndMarks && marks.shows(tokenizer.token(id)));
}

xgrammar::GrammarCompiler& GrammarCompiler::Impl::compiler(Tokens tokens) {
  const std::lock_guard lock(mutex);
  auto& made = compilers[static_cast<size_t>(tokens)];
  if (!made) {
    std::vector<std::string> pieces;
    for (int32_t id = 0; id < tokenizer.size() && id < vocabulary; ++id)
      pieces.push_back(piece(id, tokens));
    const xgrammar::TokenizerInfo info(pieces, xgrammar::VocabType::RAW,
                                       static_cast<int>(vocabulary), tokenizer.special().ends);
    made = std::make_unique<xgrammar::GrammarCompiler>(info, /*max_threads=*/1,
                                                       /*cache_enabled=*/true, kSharedBytes);
  }
  return *made;
}

std::shared_ptr<const Grammar> GrammarCompiler::Impl::find_or_make(
    const char* what, std::string key, Tokens tokens,
    const std::function<xgrammar::Grammar()>& make) {
  {
    const std::lock_guard lock(mutex);
    const auto found = std::ranges::find(kept, key, &Kept::key);
    if (found != kept.end()) {
      kept.splice(kept.begin(), kept, found);
      return kept.front().grammar;
    }
  }
  try {
    const Made grammar = compile(tokens, make());
    keep(std::move(key), grammar);
    return grammar;
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.starts_with(what)) throw;
    throw Error(error.kind(), "{}: {}", what, text);
  } catch (const xgrammar::WorkSpent&) {
    throw Error(ErrorKind::kLimit, "{}: compiling takes more than {} steps", what, kCompileSteps);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kLimit, "{}: compiling takes too much memory", what);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInput, "{}: {}", what, first_line(error));
  }
}

// Compiles outside of the lock, so that a slow grammar does not block other requests.
std::shared_ptr<const Grammar> GrammarCompiler::Impl::compile(Tokens tokens,
                                                              const xgrammar::Grammar& grammar) {
  xgrammar::GrammarCompiler& with = compiler(tokens);
  if (++compiled_count % kSharedGrammars == 0) with.ClearCache();
  const StepLimit limit(kCompileSteps);
  xgrammar::CompiledGrammar compiled = with.CompileGrammar(grammar);
  check_start(compiled);
  return std::make_shared<const Grammar>(
      std::make_shared<const Grammar::Impl>(Grammar::Impl{std::move(compiled)}));
}

// Throws kUnsupported unless the answer may be empty or some token can begin it.
void GrammarCompiler::Impl::check_start(const xgrammar::CompiledGrammar& compiled) const {
  xgrammar::GrammarMatcher matcher(compiled);
  std::vector<uint32_t> bits((static_cast<size_t>(vocabulary) + 31) / 32, ~uint32_t{0});
  int64_t size = 0;
  DLTensor tensor = mask_tensor(bits, size);
  if (!matcher.FillNextTokenBitmask(&tensor)) return;
  for (int64_t id = 0; id < vocabulary; ++id)
    if ((bits[static_cast<size_t>(id / 32)] >> (id % 32) & 1) != 0) return;
  throw Error(ErrorKind::kUnsupported, "no token of this model can begin an answer");
}

void GrammarCompiler::Impl::keep(std::string key, const Made& grammar) {
  const size_t bytes = key.size() + 2 * grammar->impl().compiled.MemorySizeBytes();
  if (bytes > kKeptBytes / 2) return;
  const std::lock_guard lock(mutex);
  if (std::ranges::find(kept, key, &Kept::key) != kept.end()) return;
  kept.push_front({std::move(key), grammar, bytes});
  kept_bytes += bytes;
  while (kept_bytes > kKeptBytes || kept.size() > kMostKept) {
    kept_bytes -= kept.back().bytes;
    kept.pop_back();
  }
}

bool GrammarCompiler::available() { return true; }

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, int64_t vocabulary,
                                 const AnswerFormat& marks)
    : impl_(std::make_unique<Impl>(tokenizer, vocabulary, marks)) {}
GrammarCompiler::~GrammarCompiler() = default;

std::shared_ptr<const Grammar> GrammarCompiler::json_schema(const Json& schema) {
  return impl_->find_or_make("schema", "s" + dump_json(schema), Impl::Tokens::kText,
                             [&] { return xgrammar::Grammar::FromEBNF(schema_rules(schema)); });
}

std::shared_ptr<const Grammar> GrammarCompiler::regex(const std::string& pattern) {
  return impl_->find_or_make("regex", "r" + pattern, Impl::Tokens::kText,
                             [&] { return xgrammar::Grammar::FromRegex(pattern); });
}

std::shared_ptr<const Grammar> GrammarCompiler::ebnf(const std::string& text) {
  return impl_->find_or_make("grammar", "g" + text, Impl::Tokens::kText, [&] {
    xgrammar::Grammar grammar = xgrammar::Grammar::FromEBNF(text);
    check_rules(parse_json(grammar.SerializeJSON(), "the grammar"));
    return grammar;
  });
}

namespace {

Json key_of(const CallForm& form, std::span<const CallableTool> tools) {
  const MemberMarks& members = form.members;
  Json key =
      Json::array({form.open, form.middle, form.close, form.separator, members.key, members.text,
                   members.json, members.end, members.drops_first_break, members.drops_last_break});
  for (const std::string& stop : members.stops) key.push_back(stop);
  for (const CallableTool& tool : tools)
    key.push_back(Json::array({tool.name, tool.parameters, tool.strict}));
  return key;
}

}  // namespace

std::shared_ptr<const Grammar> GrammarCompiler::calls(const CallForm& form,
                                                      std::span<const CallableTool> tools,
                                                      bool several) {
  const Json key = Json::array({key_of(form, tools), several});
  return impl_->find_or_make("tools", "c" + dump_json(key), Impl::Tokens::kTextAndMarks, [&] {
    return xgrammar::Grammar::FromEBNF(call_rules(form, tools, several));
  });
}

std::shared_ptr<const Grammar> GrammarCompiler::free_calls(const CallForm& form,
                                                           std::span<const CallableTool> tools,
                                                           const AnswerFormat& format,
                                                           AnswerMode start) {
  const Json key = Json::array({key_of(form, tools), format.name(), static_cast<int64_t>(start)});
  return impl_->find_or_make("tools", "f" + dump_json(key), Impl::Tokens::kTextAndMarks, [&] {
    return xgrammar::Grammar::FromEBNF(free_call_rules(form, tools, format, start));
  });
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : impl_(std::make_unique<Impl>(std::move(grammar))) {}
GrammarState::~GrammarState() = default;

bool GrammarState::mask(std::span<uint32_t> bits) {
  if (over()) return false;
  std::ranges::fill(bits, ~uint32_t{0});
  int64_t size = 0;
  DLTensor tensor = mask_tensor(bits, size);
  return impl_->limited([&] { return impl_->matcher.FillNextTokenBitmask(&tensor); });
}

void GrammarState::mask(std::span<float> logits) {
  std::vector<uint32_t>& bits = impl_->bits;
  bits.resize((logits.size() + 31) / 32);
  if (!mask(bits)) return;
  bool some = false;
  for (size_t word = 0; word < bits.size(); ++word) {
    const size_t end = std::min(logits.size(), (word + 1) * 32);
    for (size_t id = word * 32; id < end; ++id) {
      if ((bits[word] >> (id % 32) & 1) != 0)
        some = true;
      else
        logits[id] = -std::numeric_limits<float>::infinity();
    }
  }
  if (!some)
    throw Error(ErrorKind::kUnsupported,
                "no token of this model can continue the answer under the grammar");
}

void GrammarState::accept(int32_t id) {
  if (!over() && !takes(id))
    throw Error(ErrorKind::kUnsupported,
                "no token of this model can continue the answer under the grammar");
}

bool GrammarState::takes(int32_t id) {
  if (over()) return false;
  impl_->steps += kStepsEach;
  impl_->steps = std::min(impl_->steps, kFirstSteps);
  return impl_->limited([&] { return impl_->matcher.AcceptToken(id); });
}

void GrammarState::take_back(int32_t count) {
  if (count > 0) impl_->matcher.Rollback(count);
}

std::string GrammarState::forced_text() {
  if (over()) return {};
  return impl_->limited([&] { return impl_->matcher.FindJumpForwardString(); });
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
              "structured output is not available: this veery was built without xgrammar "
              "(scripts/setup.sh fetches it)");
}
}  // namespace

bool GrammarCompiler::available() { return false; }
GrammarCompiler::GrammarCompiler(const Tokenizer&, int64_t, const AnswerFormat&) { refuse(); }
std::shared_ptr<const Grammar> GrammarCompiler::calls(const CallForm&,
                                                      std::span<const CallableTool>, bool) {
  refuse();
}
std::shared_ptr<const Grammar> GrammarCompiler::free_calls(const CallForm&,
                                                           std::span<const CallableTool>,
                                                           const AnswerFormat&, AnswerMode) {
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
