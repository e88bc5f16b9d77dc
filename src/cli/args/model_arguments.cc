#include "cli/args/model_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cores.h"
#include "base/printable.h"
#include "cli/args/choice.h"
#include "cli/args/input.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "engine/model.h"
#include "kernels/find_backend.h"
#include "text/chat_template.h"

namespace veery::cli {

void ModelArguments::add_path(Arguments& app, bool required) {
  app.option("-m,--model,MODEL", path,
             "Model: a GGUF file, a folder with config.json and safetensors, or a name\nsuch as "
             "smollm2 or ORG/NAME[:Q4_K_M] (see 'veery list')")
      .type_name("PATH")
      .models();
  if (required) app.require_model();
}

void ModelArguments::add_threads(Arguments& app) {
  app.option("-t,--threads", threads, "Threads; 0: all cores that the process may use")
      .type_name("N")
      .whole_number(0, most_threads())
      .show_default();
}

void ModelArguments::add_context(Arguments& app) {
  app.option("-c,--ctx-size", context, "Context length in tokens; 0: the model's, at most 4096")
      .type_name("N")
      .whole_number(0, kMostContext)
      .show_default();
}

void ModelArguments::add_exact(Arguments& app) {
  app.flag("--exact", exact, "Use f32 activations and KV cache instead of the fast types");
}

void ModelArguments::add_chat_template(Arguments& app) {
  app.option("--chat-template", chat_template,
             "Chat template: Jinja source, or the name of a template in the model\n[the model's "
             "default]")
      .type_name("NAME|TEXT");
  app.option("--chat-template-file", chat_template_file, "Read the chat template from FILE")
      .type_name("FILE")
      .files({"jinja", "j2", "txt"});
  app.flag("--parse-special", parse_special,
           "Treat control tokens in messages as tokens, not as text");
}

std::optional<std::string> ModelArguments::chosen_template() const {
  if (!chat_template.empty() && !chat_template_file.empty())
    throw Misuse("--chat-template", "excludes --chat-template-file");
  if (!chat_template_file.empty()) return read_file(chat_template_file, kTemplateFile);
  if (chat_template.empty()) return std::nullopt;
  // A template without any brace cannot use the messages, so it is a name.
  if (chat_template.find('{') != std::string::npos)
    read_value("--chat-template", [this] { ChatTemplate(chat_template, "the template"); });
  return chat_template;
}

void ModelArguments::add_cache_types(Arguments& app) {
  const auto add = [&app](const std::string& name, std::optional<DType>& type,
                          const std::string& what) {
    add_choice<DType>(app, name, type, what,
                      {{"f32", DType::kF32},
                       {"f16", DType::kF16},
                       {"bf16", DType::kBF16},
                       {"q8_0", DType::kQ8_0}})
        .type_name("TYPE");
  };
  add("--cache-type-k", cache_keys,
      "Type of keys in the KV cache (also -ctk): f32, f16, bf16, q8_0\n[bf16; f32 with --exact]");
  add("--cache-type-v", cache_values, "Type of values in the KV cache (also -ctv) [as for keys]");
}

void ModelArguments::add_device(Arguments& app) {
  app.option_function(
         "--device",
         [this](const std::string& text) {
           if (!is_device(text))
             throw Misuse("--device", fmt::format("'{}' is not one of {}", text, kDevices));
           device = text;
         },
         "Device: cpu, cuda, cuda:N, metal, auto (a GPU if there is one),\nor GPUs that share the "
         "layers: cuda:0,cuda:1 [cpu]")
      .type_name("DEVICE")
      .choices({"cpu", "cuda", "metal", "auto"});
  app.option("--device-memory", device_memory,
             "Limit of memory on each GPU for model and KV cache, in megabytes [none]")
      .type_name("MB")
      .whole_number(1, int64_t{1} << 40);
  app.flag("--relaxed", relaxed,
           "Prefill by cuBLASLt in bf16 on NVIDIA GPUs: faster, not bit-identical\nto the CPU and "
           "dependent on the batch");
}

void ModelArguments::add_gpu_layers(Arguments& app) {
  app.option("--gpu-layers", gpu_layers,
             "Number of last layers on the GPU (also -ngl); the others on the CPU [all]")
      .type_name("N")
      .whole_number(0, 1 << 20);
}

void ModelArguments::add_json(Arguments& app, const std::string& what) {
  app.flag("--json", json, what);
}

Model ModelArguments::load() const { return load({}); }

std::shared_ptr<Executor> ModelArguments::shared_executor() const {
  if (!executor) executor = std::make_shared<Executor>(threads);
  return executor;
}

LoadOptions ModelArguments::load_options(Progress& bar, LoadOptions options) const {
  options.executor = shared_executor();
  options.threads = threads;
  if (options.context == 0) options.context = context;
  options.exact = exact;
  options.cache_keys = cache_keys;
  options.cache_values = cache_values;
  if (relaxed && !device.starts_with("cuda") && device != "auto")
    throw Misuse("--relaxed", fmt::format("the device is {}, expected --device cuda", device));
  if (relaxed && exact) throw Misuse("--relaxed", "excludes --exact: its numbers are not exact");
  std::string why;
  options.backends = options.executor->devices(device, why, relaxed);
  if (relaxed)
    write_error(
        "veery: --relaxed: prefill uses cuBLASLt in bf16, so its numbers differ from the CPU's\n");
  if (!why.empty()) write_error(fmt::format("veery: --device auto: using the CPU: {}\n", why));
  if (device_memory > 0) {
    if (options.backends.empty() || options.backends[0]->device().pool() == nullptr)
      throw Misuse("--device-memory",
                   fmt::format("the device {} has no memory of its own", device));
    for (const auto& backend : options.backends)
      backend->device().pool()->set_limit(static_cast<size_t>(device_memory) * 1'000'000);
  }
  if (gpu_layers > 0 && device == "cpu")
    throw Misuse("--gpu-layers", "the device is cpu, expected cuda, metal or auto");
  if (gpu_layers >= 0) options.backend_layers = gpu_layers;
  if (!options.backends.empty() && gpu_layers != 0)
    options.chunk = std::max(options.chunk, LoadOptions::kBackendChunk);
  options.chat_template = chosen_template();
  options.parse_special = parse_special;
  options.progress = [&bar](size_t done, size_t all) {
    bar.show(static_cast<double>(done), static_cast<double>(all));
  };
  options.warn = [](const std::string& what) {
    write_error(fmt::format("veery: warning: {}\n", escaped(what)));
  };
  return options;
}

Model ModelArguments::load(LoadOptions options) const {
  Progress bar("loading");
  return Model(path, load_options(bar, std::move(options)));
}

}  // namespace veery::cli
