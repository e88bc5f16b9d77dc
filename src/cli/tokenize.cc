// tokenize.cc: `veery tokenize`: the ids of a text. Only the tokenizer is loaded.
#include "cli/cli.h"
#include "cli/output.h"

namespace veery::cli {
namespace {

Json token_texts(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json texts = Json::array();
  for (int32_t id : ids) texts.push_back(tokenizer.token(id));
  return texts;
}

// One JSON string a line in, one array of ids a line out.
void tokenize_lines(const Tokenizer& tokenizer, const EncodeOptions& options) {
  const std::string input = read_standard_input();
  int64_t number = 0;
  for (size_t begin = 0; begin < input.size();) {
    const size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view line = std::string_view(input).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("standard input, line {}", number);
    const Json text = parse_json(line, where);
    if (!text.is_string())
      throw Error(ErrorKind::kInput, "{}: found a JSON {}, expected a string", where,
                  text.type_name());
    standard_output().json(tokenizer.encode(text.string(), options));
  }
}

}  // namespace

void tokenize_verb(std::vector<std::string> arguments) {
  ModelArguments model;
  std::optional<std::string> text;
  bool lines = false, no_special = false, plain_special = false;
  Arguments app(
      "tokenize",
      "Prints the token ids of a text, one a line, with the token as the vocabulary writes "
      "it.\nWithout -p and --jsonl the text is standard input.",
      "  veery tokenize model.gguf -p \"Hello world\"\n"
      "  echo '\"Hello world\"' | veery tokenize model.gguf --jsonl");
  model.add_path(app);
  auto* prompt = app.add_option("-p,--prompt", text, "The text")->type_name("TEXT");
  auto* jsonl = app.add_flag("--jsonl", lines,
                             "Read one JSON string a line, print one JSON array of ids a line");
  jsonl->excludes(prompt);
  app.add_flag("--no-special", no_special, "Add no BOS and no EOS");
  app.add_flag("--no-parse-special", plain_special,
               "Special tokens written in the text are plain text");
  model.add_json(app, "Print one JSON object: ids, tokens");
  app.read(std::move(arguments));

  const auto tokenizer = load_tokenizer(model.path);
  const EncodeOptions options{.add_special = !no_special, .parse_special = !plain_special};
  if (lines) return tokenize_lines(*tokenizer, options);
  const auto ids = tokenizer->encode(text ? *text : read_standard_input(), options);
  if (model.json) {
    standard_output().json({{"ids", ids}, {"tokens", token_texts(*tokenizer, ids)}});
    return;
  }
  for (int32_t id : ids)
    standard_output().line(fmt::format("{:>7}  {}", id, escaped(tokenizer->token(id))));
}

}  // namespace veery::cli
