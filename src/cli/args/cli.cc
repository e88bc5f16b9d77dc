#include "cli/args/cli.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/cores.h"
#include "base/random.h"
#include "base/utf8.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "engine/model.h"
#include "kernels/find_backend.h"
#include "text/chat_template.h"

namespace veery::cli {
namespace {

// A program that was started with a pipe for an input that nobody writes to must not hang.
constexpr int kWaitForInput = 5;  // seconds

}  // namespace

void ModelArguments::add_path(Arguments& app, bool required) {
  app.option("-m,--model,MODEL", path,
             "GGUF file, folder with config.json and safetensors, a folder or file that\n"
             "stands for one, or a name: smollm2, ORG/NAME[:Q4_K_M] (see 'veery list')")
      .type_name("PATH")
      .models();
  if (required) app.require_model();
}

void ModelArguments::add_threads(Arguments& app) {
  app.option("-t,--threads", threads, "Threads; 0: the cores that veery may use")
      .type_name("N")
      .whole_number(0, most_threads())
      .show_default();
}

void ModelArguments::add_context(Arguments& app) {
  app.option("-c,--ctx-size", context, "Positions; 0: the model's, at most 4096")
      .type_name("N")
      .whole_number(0, kMostContext)
      .show_default();
}

void ModelArguments::add_exact(Arguments& app) {
  app.flag("--exact", exact, "Activations and cache in f32 instead of the fast types");
}

void ModelArguments::add_chat_template(Arguments& app) {
  app.option("--chat-template", chat_template,
             "Jinja, or the name of one of the model's templates [the model's]")
      .type_name("NAME|TEXT");
  app.option("--chat-template-file", chat_template_file, "The same, read from FILE")
      .type_name("FILE")
      .files({"jinja", "j2", "txt"});
  app.flag("--parse-special", parse_special,
           "Control tokens written in messages act as tokens, not as text");
}

std::optional<std::string> ModelArguments::chosen_template() const {
  if (!chat_template.empty() && !chat_template_file.empty())
    throw Misuse("--chat-template", "excludes --chat-template-file");
  if (!chat_template_file.empty()) return read_file(chat_template_file, kTemplateFile);
  if (chat_template.empty()) return std::nullopt;
  // A name has no braces.
  if (chat_template.find('{') != std::string::npos)
    read_value("--chat-template", [this] { ChatTemplate(chat_template, "the template"); });
  return chat_template;
}

void ModelArguments::add_cache_types(Arguments& app) {
  const auto add = [&app](const std::string& name, std::optional<DType>& type,
                          const std::string& what) {
    app.option_function(
           name,
           [name, &type](const std::string& text) {
             type = dtype_from_name(text);
             const bool known = type == DType::kF32 || type == DType::kF16 ||
                                type == DType::kBF16 || type == DType::kQ8_0;
             if (!known)
               throw Misuse(name, fmt::format("'{}' is none of f32, f16, bf16, q8_0", text));
           },
           what)
        .type_name("TYPE")
        .choices({"f32", "f16", "bf16", "q8_0"});
  };
  add("--cache-type-k", cache_keys,
      "Keys of the cache (also -ctk): f32, f16, bf16, q8_0\n[bf16; f32 with --exact]");
  add("--cache-type-v", cache_values, "The same for values (also -ctv)");
}

void ModelArguments::add_device(Arguments& app) {
  app.option_function(
         "--device",
         [this](const std::string& text) {
           if (!is_device(text))
             throw Misuse("--device", fmt::format("'{}' is none of {}", text, kDevices));
           device = text;
         },
         "Where the model runs: cpu, cuda (or cuda:1, ..: that GPU), metal,\n"
         "or auto: a GPU where there is one [cpu]")
      .type_name("DEVICE")
      .choices({"cpu", "cuda", "metal", "auto"});
  app.option("--device-memory", device_memory,
             "Megabytes of the GPU's memory that a model and its caches may take [all]")
      .type_name("MB")
      .whole_number(1, int64_t{1} << 40);
  app.flag("--relaxed", relaxed,
           "Prompts on an NVIDIA GPU by cuBLASLt, from weights as bf16: faster, but\n"
           "numbers are no longer those of the CPU, nor the same in any batch");
}

void ModelArguments::add_gpu_layers(Arguments& app) {
  app.option("--gpu-layers", gpu_layers,
             "Layers that are on the GPU (also -ngl), the last ones, with the head;\n"
             "the others and their caches are on the CPU [all]")
      .type_name("N")
      .whole_number(0, 1 << 20);
}

void ModelArguments::add_json(Arguments& app, const std::string& what) {
  app.flag("--json", json, what);
}

Model ModelArguments::load() const { return load({}); }

LoadOptions ModelArguments::load_options(Progress& bar, LoadOptions options) const {
  options.threads = threads;
  if (options.context == 0) options.context = context;
  options.exact = exact;
  options.cache_keys = cache_keys;
  options.cache_values = cache_values;
  if (relaxed && !device.starts_with("cuda") && device != "auto")
    throw Misuse("--relaxed", fmt::format("the device is {}, expected --device cuda", device));
  if (relaxed && exact) throw Misuse("--relaxed", "--exact asks for numbers that it does not give");
  std::string why;
  options.backends = find_backends(device, why, relaxed);
  if (relaxed)
    write_error(
        "veery: --relaxed: prompts are computed by cuBLASLt and in bf16: their numbers differ from "
        "the CPU's\n");
  if (!why.empty()) write_error(fmt::format("veery: --device auto: the CPU: {}\n", why));
  if (device_memory > 0) {
    if (options.backends.empty() || options.backends[0]->device().pool() == nullptr)
      throw Misuse("--device-memory",
                   fmt::format("the device {} has no memory of its own", device));
    for (const auto& backend : options.backends)
      backend->device().pool()->set_limit(static_cast<size_t>(device_memory) * 1'000'000);
  }
  if (gpu_layers > 0 && device == "cpu")
    throw Misuse("--gpu-layers", "the device is cpu, expected --device cuda, metal or auto too");
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

TextArguments::Options TextArguments::add(Arguments& app, const std::string& name,
                                          const std::string& what) {
  app.take_words(name, words, "The same as -p; words are joined by spaces");
  const Option given = app.option("-p,--prompt", prompt, what).type_name("TEXT").allow_empty();
  const Option read_from =
      app.option("-f,--file", file, "Read it from a file; -: standard input").type_name("FILE");
  if (!combined) read_from.excludes(given);
  return {given, read_from};
}

void TextArguments::join_words(const Arguments& app, std::initializer_list<const char*> others) {
  if (words.empty()) return;
  std::vector<const char*> flags = {"--prompt"};
  flags.insert(flags.end(), others);
  const bool input = words.size() == 1 && words.front() == "-";
  if (!combined || input) flags.push_back("--file");
  for (const char* flag : flags)
    if (app.count(flag) > 0)
      throw Misuse(
          fmt::format("unknown argument '{}': {} says already what to read", words.front(), flag));
  if (input)
    file = "-";
  else
    prompt = fmt::format("{}", fmt::join(words, " "));
}

std::string TextArguments::read() const {
  if (!combined) {
    if (prompt) return *prompt;
    return unix_lines(file ? read_file(*file) : read_standard_input());
  }
  std::vector<std::string> parts;
  const auto add_file = [&](std::string read) {
    std::string text = unix_lines(std::move(read));
    if (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) parts.push_back(std::move(text));
  };
  if (!given())
    add_file(read_standard_input());
  else if (file != "-" && input_is_piped())
    add_file(read_standard_input());
  if (file) add_file(read_file(*file));
  if (prompt && (parts.empty() || !prompt->empty())) parts.push_back(*prompt);
  return fmt::format("{}", fmt::join(parts, "\n\n"));
}

void tell_lost(const LostBytes& lost, std::string_view what) {
  if (lost.count == 0) return;
  write_error(
      fmt::format("veery: the vocabulary has no token for {} byte{} of {}, the first at offset {}: "
                  "left out\n",
                  lost.count, lost.count == 1 ? "" : "s", printable(what), lost.first));
}

Json lost_json(const LostBytes& lost) { return {{"bytes", lost.count}, {"first", lost.first}}; }

std::vector<int32_t> parse_ids(const std::string& text, const std::string& flag) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    const bool separated = next == end || (*next == ',' && next + 1 < end);
    if (error != std::errc() || id < 0 || !separated)
      throw Misuse(flag, fmt::format("'{}' is no list of token ids such as 1,2,3", text));
    ids.push_back(id);
    at = next == end ? end : next + 1;
    while (at < end && *at == ' ') ++at;
  }
  if (ids.empty()) throw Misuse(flag, "the list of token ids is empty");
  return ids;
}

void check_ids(const std::vector<int32_t>& ids, const Model& model, const std::string& flag) {
  for (const int32_t id : ids)
    if (id >= model.config().vocab)
      throw Misuse(flag, fmt::format("token id {} is outside of the vocabulary of {}", id,
                                     model.config().vocab));
}

bool input_is_piped() {
  struct stat info = {};
  if (::fstat(STDIN_FILENO, &info) != 0) return false;
  if (S_ISREG(info.st_mode)) return true;
  if (!S_ISFIFO(info.st_mode) && !S_ISSOCK(info.st_mode)) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (::poll(&input, 1, kWaitForInput * 1000) != 0) return true;
  write_error(fmt::format(
      "veery: standard input brought nothing for {} seconds and is left out (-f - waits for it, < "
      "/dev/null closes it)\n",
      kWaitForInput));
  return false;
}

std::string read_standard_input(const FileKind& kind) {
  return read_text(STDIN_FILENO, "standard input", kind);
}

std::string read_file(const std::string& path, const FileKind& kind) {
  return path == "-" ? read_standard_input(kind) : read_text(path, kind);
}

Json device_memory(const Model& model) {
  const std::optional<DeviceMemory> memory = model.device_memory();
  if (!memory) return nullptr;
  return {{"active_bytes", memory->active},
          {"peak_bytes", memory->peak},
          {"cached_bytes", memory->cached}};
}

size_t peak_memory() {
  // Not getrusage(): its number is at least that of the process that started this one.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    return static_cast<size_t>(std::strtoull(line.c_str() + 6, nullptr, 10)) * 1024;
  }
  return 0;
}

std::vector<int32_t> any_tokens(const Model& model, size_t count) {
  Random random(1);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens)
    token = static_cast<int32_t>(random.next() % static_cast<uint32_t>(model.config().vocab));
  return tokens;
}

}  // namespace veery::cli
