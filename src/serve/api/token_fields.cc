#include "serve/api/token_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "serve/api/api_error.h"

namespace veery::serve {
namespace {

constexpr float kNever = -1e9F;      // a bias with which no token comes
constexpr size_t kMostWords = 1024;  // of a list: each token of an answer is compared with all

std::vector<int32_t> read_ids(const Fields& fields, const char* name, const Model& model) {
  std::vector<int32_t> ids;
  const Json* list = fields.array(name);
  if (list == nullptr) return ids;
  for (const Json& item : *list) {
    if (!item.is_integer_in(0, model.config().vocab - 1))
      fields.fail(name, fmt::format("token ids from 0 to {}", model.config().vocab - 1));
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

std::vector<int32_t> tokens_of(const std::string& text, const Model& model) {
  return model.tokenizer().encode(text, {.add_special = false});
}

// Bans each word both at the beginning of a text and within a text (after a space).
void read_bad_words(const Fields& fields, const Model& model, GenerateOptions& options) {
  const std::vector<std::string> words = fields.texts("bad_words");
  if (words.size() > kMostWords)
    fields.fail("bad_words", fmt::format("{} texts at most", kMostWords));
  for (const std::string& word : words) {
    if (word.empty()) fields.fail("bad_words", "texts that are not empty");
    const size_t first = word.find_first_not_of(' ');
    const std::string bare = first == std::string::npos ? word : word.substr(first);
    for (const std::string& form : {bare, " " + bare})
      if (std::vector<int32_t> ids = tokens_of(form, model);
          !ids.empty() && std::ranges::find(options.banned, ids) == options.banned.end())
        options.banned.push_back(std::move(ids));
  }
}

class BiasReader {
 public:
  BiasReader(const Fields& fields, const Model& model, SamplerOptions& sampling)
      : fields_(fields), model_(model), sampling_(sampling) {}

  void read() const {
    const Json* bias = fields_.find("logit_bias");
    if (bias == nullptr) return;
    if (bias->is_object()) {
      for (const auto& [key, value] : bias->items()) add(Json(key), value);
    } else if (bias->is_array()) {
      for (const Json& pair : *bias) {
        if (!pair.is_array() || pair.size() != 2) fail();
        add(pair[0], pair[1]);
      }
    } else {
      fail();
    }
  }

 private:
  [[noreturn]] void fail() const {
    fields_.fail(
        "logit_bias",
        fmt::format("numbers from -1e6 to 1e6, or false, by token ids from 0 to {} or texts",
                    model_.config().vocab - 1));
  }

  void add(const Json& key, const Json& value) const {
    float bias = kNever;
    if (value.is_number() && std::abs(value.number()) <= 1e6)
      bias = static_cast<float>(value.number());
    else if (!(value.is_boolean() && !value.boolean()))
      fail();
    for (const int32_t id : ids_of(key)) sampling_.bias.push_back({id, bias});
  }

  std::vector<int32_t> ids_of(const Json& key) const {
    if (key.is_number()) {
      if (!key.is_integer_in(0, model_.config().vocab - 1)) fail();
      return {key.get<int32_t>()};
    }
    if (!key.is_string() || key.string().empty()) fail();
    const std::string& text = key.string();
    int32_t id = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error == std::errc() && end == text.data() + text.size()) {
      if (id < 0 || id >= model_.config().vocab) fail();
      return {id};
    }
    return tokens_of(text, model_);
  }

  const Fields& fields_;
  const Model& model_;
  SamplerOptions& sampling_;
};

}  // namespace

void read_token_fields(const Fields& fields, const Model& model, GenerateOptions& options) {
  options.stop_ids = read_ids(fields, "stop_token_ids", model);
  options.min_tokens = fields.integer("min_tokens", 0, INT32_MAX).value_or(0);
  if (options.min_tokens > options.max_tokens)
    fields.fail("min_tokens", fmt::format("{} at most, as max_tokens", options.max_tokens));
  options.allowed = read_ids(fields, "allowed_token_ids", model);
  if (const Json* list = fields.array("allowed_token_ids"); list != nullptr && list->empty())
    fields.fail("allowed_token_ids", "one token id or more");
  std::ranges::sort(options.allowed);
  options.keep_stop = fields.flag("include_stop_str_in_output").value_or(false);
  options.show_special = !fields.flag("skip_special_tokens").value_or(true);
  read_bad_words(fields, model, options);
  BiasReader(fields, model, options.sampling).read();
}

void truncate_prompt(const Fields& fields, int32_t context, std::vector<int32_t>& ids) {
  const auto given = fields.integer("truncate_prompt_tokens", -1, INT32_MAX);
  if (!given) return;
  if (*given == 0) fields.fail("truncate_prompt_tokens", "1 or more, or -1");
  const auto most = static_cast<size_t>(*given < 0 ? std::max(context - 1, 1) : *given);
  if (ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
}

}  // namespace veery::serve
