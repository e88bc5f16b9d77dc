// grammar_bench.cc: measures the time to compile schemas and to compute token masks.
//
//   VEERY_BENCH_MODEL=model.gguf build/release/bin/grammar_bench
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "text/grammar/answer_rules.h"
#include "text/grammar/grammar.h"

namespace {

using namespace veery;

constexpr const char* kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"], "additionalProperties": false})",
    R"({"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "when": {"type": "string",
        "format": "date-time"}, "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}}, "note": {"type": "string", "maxLength": 200}},
        "required": ["id"]}})",
    R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "children": {"type": "array",
        "items": {"$ref": "#/$defs/node"}}}, "required": ["value"]}}})",
    R"({"type": "object", "properties": {"note": {"type": "string", "maxLength": 255}}, "required": ["note"]})",
};

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> made = [] {
    const char* path = std::getenv("VEERY_BENCH_MODEL");
    if (path == nullptr) throw Error(ErrorKind::kInput, "VEERY_BENCH_MODEL is not set");
    return make_tokenizer(open_gguf(path));
  }();
  return *made;
}

Json schema(int64_t index) { return parse_json(kSchemas[index], "schema"); }

void rules_of_schema(benchmark::State& state) {
  const Json given = schema(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(schema_rules(given));
}
BENCHMARK(rules_of_schema)->DenseRange(0, std::size(kSchemas) - 1)->Unit(benchmark::kMicrosecond);

void compile(benchmark::State& state) {
  const Json given = schema(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    GrammarCompiler compiler(tokenizer(), tokenizer().size());
    compiler.json_schema(Json{{"const", 1}});  // the vocabulary is sorted only once per model
    state.ResumeTiming();
    benchmark::DoNotOptimize(compiler.json_schema(given));
  }
}
BENCHMARK(compile)->DenseRange(0, std::size(kSchemas) - 1)->Unit(benchmark::kMillisecond);

// Measures the mean time of a token mask over answers of random tokens.
void mask(benchmark::State& state) {
  const int32_t size = tokenizer().size();
  GrammarCompiler compiler(tokenizer(), size);
  const auto grammar = compiler.json_schema(schema(state.range(0)));
  std::optional<GrammarState> answer;
  std::vector<uint32_t> bits((static_cast<size_t>(size) + 31) / 32);
  std::minstd_rand random(1);
  int64_t length = 0;
  for (auto _ : state) {
    if (!answer || answer->over() || length++ > 300) answer.emplace(grammar), length = 0;
    benchmark::DoNotOptimize(answer->mask(bits));
    state.PauseTiming();
    auto id = static_cast<int32_t>(random() % static_cast<uint32_t>(size));
    while ((bits[static_cast<size_t>(id / 32)] >> (id % 32) & 1) == 0) id = (id + 1) % size;
    answer->accept(id);
    state.ResumeTiming();
  }
}
BENCHMARK(mask)->DenseRange(0, std::size(kSchemas) - 1)->Unit(benchmark::kMicrosecond);

}  // namespace
