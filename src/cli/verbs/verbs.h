// verbs.h: the verbs of the program.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// Runs a verb with the arguments after it. Throws Misuse, Status, or Error for a failure.
using VerbFunction = void (*)(std::vector<std::string> arguments);
struct Verb {
  std::string_view name;
  std::string_view summary;
  VerbFunction run;
};

/// All verbs, in the order of the help. Defined in main.cc.
std::span<const Verb> verbs();

void run_verb(std::vector<std::string> arguments);
void tokenize_verb(std::vector<std::string> arguments);
void template_verb(std::vector<std::string> arguments);
void logits_verb(std::vector<std::string> arguments);
void embed_verb(std::vector<std::string> arguments);
void serve_verb(std::vector<std::string> arguments);
void batch_verb(std::vector<std::string> arguments);
void rerank_verb(std::vector<std::string> arguments);
void classify_verb(std::vector<std::string> arguments);
void transcribe_verb(std::vector<std::string> arguments);
void perplexity_verb(std::vector<std::string> arguments);
void bench_verb(std::vector<std::string> arguments);
void inspect_verb(std::vector<std::string> arguments);
void plan_verb(std::vector<std::string> arguments);
void convert_verb(std::vector<std::string> arguments);
void quantize_verb(std::vector<std::string> arguments);
void imatrix_verb(std::vector<std::string> arguments);
void list_verb(std::vector<std::string> arguments);
void show_verb(std::vector<std::string> arguments);
void verify_verb(std::vector<std::string> arguments);

}  // namespace veery::cli
