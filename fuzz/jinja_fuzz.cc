// jinja_fuzz.cc: any bytes must parse and render as a chat template, or throw an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const veery::Json kVariables = veery::parse_json(
      R"({"messages": [{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "function":
            {"name": "f", "arguments": {"x": [1, 2.5, "three"]}}}]},
          {"role": "tool", "content": [{"type": "text", "text": "Grüße"}]}],
          "tools": [{"type": "function", "function": {"name": "f"}}],
          "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 7})",
      "variables");
  veery::ChatTemplate::Options options;
  options.now = 1715949296;
  options.max_steps = 200'000;
  options.max_output = 1 << 20;
  options.max_memory = 8 << 20;
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    veery::ChatTemplate(source).render(kVariables, options);
  } catch (const veery::Error&) {
    // Rejected, which is valid.
  }
  return 0;
}
