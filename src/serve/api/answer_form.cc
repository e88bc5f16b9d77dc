#include "serve/api/answer_form.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/prompt.h"

namespace veery::serve {
namespace {

constexpr size_t kLongestText = 200'000;  // bytes of a grammar or pattern

// Returns a literal of GBNF.
std::string gbnf_literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else
      out += c;
  }
  return out + '"';
}

/// Compiles the value of one field into a grammar.
class Form {
 public:
  Form(ServedModel& model, std::string field) : model_(model), field_(std::move(field)) {}

  std::shared_ptr<const Grammar> schema(const Json& given) const {
    Json schema = given;
    // Clients of vLLM also send schemas as JSON in a string.
    if (given.is_string()) {
      std::optional<Json> parsed = maybe_json(given.string());
      if (!parsed) fail("is not JSON");
      schema = std::move(*parsed);
    }
    if (!schema.is_object() && !schema.is_boolean()) fail("is not a JSON schema");
    return guarded([&] { return model_.grammars().json_schema(schema); });
  }
  std::shared_ptr<const Grammar> regex(const Json& given) const {
    return guarded([&] { return model_.grammars().regex(text_of(given)); });
  }
  std::shared_ptr<const Grammar> grammar(const Json& given) const {
    return guarded([&] { return model_.grammars().ebnf(text_of(given)); });
  }
  std::shared_ptr<const Grammar> choice(const Json& given) const {
    if (!given.is_array() || given.empty()) fail("is not a list of texts");
    std::string rule = "root ::= ";
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].is_string() || given[i].string().empty())
        fail("has a choice that is not a text");
      rule += (i > 0 ? " | " : "") + gbnf_literal(given[i].string());
    }
    return guarded([&] { return model_.grammars().ebnf(rule + "\n"); });
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ApiError(400, fmt::format("{} {}", field_, what), field_);
  }

 private:
  std::string text_of(const Json& given) const {
    if (!given.is_string() || given.string().empty()) fail("is not a text");
    if (given.string().size() > kLongestText)
      fail(fmt::format("has {} bytes, expected {} at most", given.string().size(), kLongestText));
    return given.string();
  }
  template <typename Make>
  std::shared_ptr<const Grammar> guarded(const Make& make) const {
    try {
      return make();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      throw ApiError(400, fmt::format("{}: {}", field_, error.what()), field_);
    }
  }

  ServedModel& model_;
  std::string field_;
};

using Make = std::shared_ptr<const Grammar> (Form::*)(const Json&) const;
struct Name {
  const char* field;
  Make make;
};
constexpr Name kFields[] = {{"guided_json", &Form::schema},   {"guided_regex", &Form::regex},
                            {"guided_choice", &Form::choice}, {"guided_grammar", &Form::grammar},
                            {"json_schema", &Form::schema},   {"grammar", &Form::grammar}};
constexpr Name kMembers[] = {{"json", &Form::schema},
                             {"regex", &Form::regex},
                             {"choice", &Form::choice},
                             {"grammar", &Form::grammar}};

}  // namespace

void read_answer_form(const Fields& fields, ServedModel& model, const AnswerParser& parser,
                      GenerateRequest& request) {
  std::string by;  // the field that gave the form
  const auto take = [&](const std::string& name, const auto& make) {
    if (!by.empty())
      throw ApiError(400, fmt::format("{} and {} exclude each other", by, name), name);
    by = name;
    request.grammar = make();
    request.grammar_after = parser.reasoning_end();
  };
  if (const Json* format = fields.object("response_format")) {
    read_format(format, model, parser, request);
    if (request.grammar) by = "response_format";
  }
  for (const Name& name : kFields) {
    const Json* given = fields.find(name.field);
    if (given == nullptr || *given == "") continue;
    take(name.field, [&] { return (Form(model, name.field).*name.make)(*given); });
  }
  const Json* outputs = fields.object("structured_outputs");
  if (outputs == nullptr) return;
  const Fields members(*outputs, "structured_outputs.");
  for (const Name& name : kMembers)
    if (const Json* given = members.find(name.field))
      take(members.name(name.field),
           [&] { return (Form(model, members.name(name.field)).*name.make)(*given); });
  if (members.flag("json_object").value_or(false))
    take("structured_outputs.json_object", [&] {
      return Form(model, "structured_outputs.json_object").schema({{"type", "object"}});
    });
}

}  // namespace veery::serve
