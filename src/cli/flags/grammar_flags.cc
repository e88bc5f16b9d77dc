#include "cli/flags/grammar_flags.h"

#include "base/error.h"
#include "base/json.h"
#include "base/untrusted_file.h"

namespace veery::cli {
namespace {

constexpr const char* kGroup = "Constrained decoding";

}  // namespace

void GrammarFlags::add(Arguments& app) {
  const Option schema =
      app.option("-j,--json-schema", schema_,
                 "Constrain the answer to JSON of this schema; {}: any JSON.\nReasoning is not "
                 "constrained. Unsupported keywords are an error.")
          .type_name("SCHEMA")
          .group(kGroup);
  const Option schema_file =
      app.option("--json-schema-file", schema_file_, "Read the JSON schema from FILE")
          .type_name("FILE")
          .files({"json"})
          .group(kGroup)
          .excludes(schema);
  const Option regex =
      app.option("--regex", regex_, "Constrain the answer to this regular expression")
          .type_name("PATTERN")
          .group(kGroup)
          .excludes(schema)
          .excludes(schema_file);
  const Option grammar = app.option("--grammar", grammar_,
                                    "Constrain the answer to this grammar (EBNF as in llama.cpp's "
                                    "GBNF).\nIts first rule is 'root'.")
                             .type_name("EBNF")
                             .group(kGroup)
                             .excludes(schema)
                             .excludes(schema_file)
                             .excludes(regex);
  app.option("--grammar-file", grammar_file_, "Read the grammar from FILE")
      .type_name("FILE")
      .files({"gbnf", "ebnf"})
      .group(kGroup)
      .excludes(schema)
      .excludes(schema_file)
      .excludes(regex)
      .excludes(grammar);
}

std::shared_ptr<const Grammar> GrammarFlags::grammar(const Model& model) const {
  const auto text_of = [](const std::string& text, const std::string& file) {
    return file.empty() ? text : read_text(file, kConfigFile);
  };
  const std::string schema = text_of(schema_, schema_file_);
  const std::string rules = text_of(grammar_, grammar_file_);
  if (schema.empty() && rules.empty() && regex_.empty()) return nullptr;
  const char* flag = !schema.empty() ? "--json-schema" : !rules.empty() ? "--grammar" : "--regex";
  try {
    GrammarCompiler compiler(model.tokenizer(), model.config().vocab);
    if (!schema.empty()) return compiler.json_schema(parse_json(schema, "the schema"));
    return rules.empty() ? compiler.regex(regex_) : compiler.ebnf(rules);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw Misuse(flag, error.what());
  }
}

}  // namespace veery::cli
