#include "cli/cli.h"

#include <unistd.h>

#include <charconv>
#include <fstream>

#include "base/random.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace veery::cli {

namespace {

// One look: "-n,--predict N    Most tokens ... [-1]".
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() != 0 ? option->get_type_name() : "";
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (value.empty() ? "" : fmt::format(" [{}]", value));
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
};

}  // namespace

Arguments::Arguments(std::string_view verb, std::string description, std::string example)
    : CLI::App(std::move(description), fmt::format("veery {}", verb)) {
  auto look = std::make_shared<HelpFormatter>();
  look->column_width(32);
  formatter(std::move(look));
  set_help_flag("-h,--help", "Print this help and leave");
  footer("Example:\n" + std::move(example));
  allow_extras();  // told by read(), which says what is unknown before what is missing
}

void Arguments::read(std::vector<std::string> arguments) {
  const auto check_known = [this] {
    if (const auto unknown = remaining(); !unknown.empty())
      throw CLI::ParseError(fmt::format("unknown argument '{}'", unknown.front()), 2);
  };
  for (std::string& argument : arguments)
    if (const auto known = spellings_.find(argument); known != spellings_.end())
      argument = known->second;
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::string text = help();
    if (const size_t at = text.find("[MODEL]"); requires_model_ && at != std::string::npos)
      text.replace(at, 7, "MODEL");
    for (size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    standard_output().write(text);
    throw CLI::Success();
  } catch (const CLI::RequiredError&) {
    check_known();
    throw;
  }
  check_known();
  if (requires_model_ && (*this)["--model"]->count() == 0)
    throw CLI::ParseError("MODEL is required: the path of a GGUF file or a model folder", 2);
}

CLI::Validator in_range(double low, double high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};
        return fmt::format("'{}' is no number from {} to {}", text, low, high);
      },
      "");
}

void ModelArguments::add_path(Arguments& app, bool required) {
  app.add_option("-m,--model,MODEL", path, "GGUF file, or folder with config.json and safetensors")
      ->type_name("PATH");
  if (required) app.require_model();
}

void ModelArguments::add_threads(Arguments& app) {
  app.add_option("-t,--threads", threads, "Threads; 0: the cores that veery may use")
      ->type_name("N")
      ->check(in_range(0, 1024))
      ->capture_default_str();
}

void ModelArguments::add_context(Arguments& app) {
  app.add_option("-c,--ctx-size", context, "Positions; 0: the model's, at most 4096")
      ->type_name("N")
      ->check(in_range(0, 1 << 30))
      ->capture_default_str();
}

void ModelArguments::add_exact(Arguments& app) {
  app.add_flag("--exact", exact, "Activations and cache in f32 instead of the fast types");
}

void ModelArguments::add_cache_types(Arguments& app) {
  const auto add = [&app](const std::string& name, std::optional<DType>& type,
                          const std::string& what) {
    app.add_option_function<std::string>(
           name,
           [name, &type](const std::string& text) {
             type = dtype_from_name(text);
             const bool known = type == DType::kF32 || type == DType::kF16 ||
                                type == DType::kBF16 || type == DType::kQ8_0;
             if (!known)
               throw CLI::ValidationError(
                   name, fmt::format("'{}' is none of f32, f16, bf16, q8_0", text));
           },
           what)
        ->type_name("TYPE");
  };
  add("--cache-type-k", cache_keys,
      "Keys of the cache (also -ctk): f32, f16, bf16, q8_0\n[bf16; f32 with --exact]");
  add("--cache-type-v", cache_values, "The same for values (also -ctv)");
  app.add_spelling("-ctk", "--cache-type-k");
  app.add_spelling("-ctv", "--cache-type-v");
}

void ModelArguments::add_json(Arguments& app, const std::string& what) {
  app.add_flag("--json", json, what);
}

Model ModelArguments::load(LoadOptions options) const {
  options.threads = threads;
  options.exact = exact;
  options.cache_keys = cache_keys;
  options.cache_values = cache_values;
  if (options.context == 0) options.context = context;
  Progress bar("loading");
  options.progress = [&bar](size_t done, size_t all) {
    bar.show(static_cast<double>(done), static_cast<double>(all));
  };
  options.warn = [](const std::string& what) {
    write_error(fmt::format("veery: warning: {}\n", escaped(what)));
  };
  return Model(path, options);
}

std::vector<int32_t> parse_ids(const std::string& text, const std::string& flag) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    const bool separated = next == end || (*next == ',' && next + 1 < end);
    if (error != std::errc() || id < 0 || !separated)
      throw CLI::ValidationError(flag,
                                 fmt::format("'{}' is no list of token ids such as 1,2,3", text));
    ids.push_back(id);
    at = next == end ? end : next + 1;
    while (at < end && *at == ' ') ++at;
  }
  if (ids.empty()) throw CLI::ValidationError(flag, "the list of token ids is empty");
  return ids;
}

std::string read_standard_input(const FileKind& kind) {
  return read_text(STDIN_FILENO, "standard input", kind);
}

std::string read_file(const std::string& path, const FileKind& kind) {
  return path == "-" ? read_standard_input(kind) : read_text(path, kind);
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

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

}  // namespace veery::cli
