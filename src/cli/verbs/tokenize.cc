// tokenize.cc: `veery tokenize`: prints the ids of a text. Loads only the tokenizer.
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/args/arguments.h"
#include "cli/args/model_arguments.h"
#include "cli/args/text_arguments.h"
#include "cli/args/token_ids.h"
#include "cli/output/output.h"
#include "cli/verbs/verbs.h"
#include "engine/model.h"

namespace veery::cli {
namespace {

Json token_texts(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json texts = Json::array();
  for (int32_t id : ids) texts.push_back(tokenizer.token(id));
  return texts;
}

// Reads one JSON string per line, prints one array of ids per line. `name`: the source, for errors.
void tokenize_lines(const Tokenizer& tokenizer, EncodeOptions options, const std::string& input,
                    const std::string& name) {
  int64_t number = 0;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view line = std::string_view(input).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}, line {}", name, number);
    const Json text = parse_json(line, where);
    if (!text.is_string())
      throw Error(ErrorKind::kInput, "{}: found a JSON {}, expected a string", where,
                  text.type_name());
    LostBytes lost;
    options.lost = &lost;
    standard_output().json(tokenizer.encode(text.string(), options));
    warn_lost(lost, where);
  }
}

}  // namespace

void tokenize_verb(std::vector<std::string> arguments) {
  ModelArguments model;
  TextArguments text;
  bool lines = false, no_special = false, plain_special = false;
  Arguments app("tokenize",
                "Prints the token ids of a text, one per line, each with its text in the "
                "vocabulary.\nWithout "
                "-p, -f or words, reads standard input. MODEL may be a tokenizer.json alone.",
                "  veery tokenize model.gguf -p \"Hello world\"\n"
                "  echo '\"Hello world\"' | veery tokenize model.gguf --jsonl");
  model.add_path(app);
  const auto source = text.add(app, "TEXT", "Text to tokenize");
  app.flag("--jsonl", lines, "Read one JSON string per line, print one JSON array of ids per line")
      .excludes(source.prompt);
  app.flag("--no-special", no_special, "Add neither BOS nor EOS");
  app.flag("--no-parse-special", plain_special, "Treat special tokens in the text as plain text");
  model.add_json(app, "Print a JSON object: ids, tokens and, if some bytes have no token, lost");
  app.read(std::move(arguments));

  text.join_words(app, {"--jsonl"});
  const std::string input = text.read();
  const auto tokenizer = load_tokenizer(model.path);
  EncodeOptions options{.add_special = !no_special, .parse_special = !plain_special};
  const bool from_file = text.file && *text.file != "-";
  if (lines)
    return tokenize_lines(*tokenizer, options, input, from_file ? *text.file : "standard input");
  LostBytes lost;
  options.lost = &lost;
  const auto ids = tokenizer->encode(input, options);
  warn_lost(lost, "the text");
  if (model.json) {
    Json json = {{"ids", ids}, {"tokens", token_texts(*tokenizer, ids)}};
    if (lost.count > 0) json["lost"] = lost_json(lost);
    standard_output().json(json);
    return;
  }
  for (int32_t id : ids)
    standard_output().line(fmt::format("{:>7}  {}", id, escaped(tokenizer->token(id))));
}

}  // namespace veery::cli
