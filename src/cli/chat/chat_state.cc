#include "cli/chat/chat_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "sample/parameters.h"

namespace veery::cli {
namespace {

// Sets a sampling parameter, max_tokens or the seed.
void apply_parameter(GenerateOptions& options, const std::string& name, double value,
                     const std::string& where) {
  const auto check_whole = [&](double low, double high) {
    if (value >= low && value <= high && value == std::floor(value)) return;
    throw Error(ErrorKind::kInput, "{}: {} is {}, expected a whole number from {} to {}", where,
                name, value, low, high);
  };
  if (name == "max_tokens") {
    check_whole(-1, 1e15);
    options.max_tokens = value < 0 ? GenerateOptions().max_tokens : static_cast<int64_t>(value);
    return;
  }
  if (name == "seed") {
    check_whole(-1, 9e15);
    if (value >= 0) options.sampling.seed = static_cast<uint64_t>(value);
    return;
  }
  const SamplingParameter* row = find_sampling_parameter(name);
  if (row == nullptr)
    throw Error(ErrorKind::kInput, "{}: unknown parameter '{}'", where, printable(name, 40));
  if (!row->accepts(value))
    throw Error(ErrorKind::kInput, "{}: {} is {}, expected {}", where, name, value,
                row->expected());
  row->set(options.sampling, value);
}

}  // namespace

ChatFile chat_file_of(const ChatState& state) {
  ChatFile file{.model = state.model_name,
                .template_args = state.chat.variables(),
                .tools = state.chat.tools(),
                .messages = state.chat.messages()};
  for (const SamplingParameter& row : sampling_parameters()) {
    const double value = row.get(state.options.sampling);
    const bool shown = row.name == "temperature" || row.name == "top_k" || row.name == "top_p" ||
                       row.name == "min_p";
    if (!shown && value == row.get()) continue;
    // text() is the shortest decimal of a float: 0.7, not 0.699999988.
    file.parameters[row.name] = row.whole != nullptr ? Json(static_cast<int64_t>(value))
                                                     : parse_json(row.text(value), "number");
  }
  if (state.options.max_tokens < GenerateOptions().max_tokens)
    file.parameters["max_tokens"] = state.options.max_tokens;
  return file;
}

void apply_parameters(GenerateOptions& options, const Json& parameters, const std::string& where) {
  for (const auto& [name, value] : parameters.items())
    apply_parameter(options, name, value.number(), where);
}

void apply_chat_file(ChatState& state, const ChatFile& file, const std::string& where) {
  GenerateOptions options = state.options;
  apply_parameters(options, file.parameters, where);
  Chat chat(state.chat);
  chat.set_system("");
  chat.set_messages(file.messages, where);
  Json variables = chat.variables();
  variables.update(file.template_args);
  chat.set_variables(std::move(variables));
  if (!file.tools.is_null()) chat.set_tools(file.tools);
  if (!chat.messages().empty()) chat.render();
  state.options = std::move(options);
  state.chat.set_system("");
  state.chat.set_messages(chat.messages(), where);
  state.chat.set_variables(chat.variables());
  state.chat.set_tools(chat.tools());
}

}  // namespace veery::cli
