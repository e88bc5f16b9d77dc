// A program of somebody else: prints the ids that a model answers 3, 1, 4 with.
#include <fmt/ranges.h>
#include <veery/base/error.h>
#include <veery/schedule/generate.h>

#include <cstdio>
#include <vector>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    veery::Model model(arguments[1], {.threads = 1});
    veery::Scheduler scheduler(model, veery::single_user());
    veery::GenerateOptions options;
    options.sampling.temperature = 0;
    options.max_tokens = 8;
    const std::vector<int32_t> prompt = {3, 1, 4};
    fmt::print(
        "{}\n",
        fmt::join(veery::generate(scheduler, {.prompt = prompt, .options = options}).ids, ","));
  } catch (const veery::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
