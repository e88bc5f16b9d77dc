// serve.cc: `veery serve`: answers over HTTP.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/clock.h"
#include "base/untrusted_file.h"
#include "cli/args/cli.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/hub/fetch.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/version.h"
#include "serve/http/server.h"
#include "serve/models/keep_alive.h"
#include "serve/service.h"

namespace veery::cli {
namespace {

struct Flags {
  ModelArguments model;
  SchedulerFlags scheduler;
  std::vector<std::string> paths, aliases, pinned, origins, hosts;
  FetchFlags fetch;
  std::string host = "127.0.0.1";
  int64_t port = 8080, queue = 1024, body = 32, grace = 10, memory = 0, responses = 64;
  int64_t prefix_bytes = 10000;
  std::string prefix_folder;
  serve::KeepAlive keep_alive = -1;
  std::string key_file;
  serve::TlsFiles tls;
  serve::LogOptions log;
};

// glibc gives each thread an arena of its own, which keeps what the largest request of that thread
// had freed: answering random JSON schemas, the process grew by 7 MB a minute. Four are enough, as
// steps of a model allocate nothing. The user's own settings stay.
void limit_arenas() {
#if defined(__GLIBC__)
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr && std::getenv("GLIBC_TUNABLES") == nullptr)
    mallopt(M_ARENA_MAX, 4);
#endif
}

// "models/Llama.gguf" is "Llama"; a folder is its name.
std::string id_of(const std::string& path) {
  std::error_code code;
  std::filesystem::path name = std::filesystem::path(path);
  if (!name.has_filename()) name = name.parent_path();
  if (std::filesystem::is_directory(name, code)) name = std::filesystem::canonical(name, code);
  const std::string file = name.filename().string();
  return file.ends_with(".gguf") ? file.substr(0, file.size() - 5) : file;
}

std::string id_of(const Flags& flags, size_t model) {
  return model < flags.aliases.size() ? flags.aliases[model] : id_of(flags.paths[model]);
}

// What happens to the server, in its log. Where that is a file, standard error tells it too.
void tell(serve::Log& log, serve::LogLevel level, const std::string& message) {
  log.note(level, message);
  if (log.options().file.empty()) return;
  write_error(
      fmt::format("veery: {}{}\n", level == serve::LogLevel::kWarn ? "warning: " : "", message));
}

/// SIGINT and SIGTERM end the server; those that come later end the program. SIGHUP opens the file
/// of the log anew; without one it ends the server too.
class Signals {
 public:
  Signals(serve::HttpServer& server, serve::Log& log)
      : thread_([this, &server, &log] { wait(server, log); }) {}
  ~Signals() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  /// To be called before any other thread is made.
  static void block() {
    sigset_t set = wanted();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
  }

 private:
  static sigset_t wanted() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
    return set;
  }
  void wait(serve::HttpServer& server, serve::Log& log) {
    const sigset_t set = wanted();
    for (int count = 0, signal = 0; sigwait(&set, &signal) == 0 && !over_;) {
      if (signal == SIGUSR1) continue;
      if (signal == SIGHUP && !log.options().file.empty()) {
        log.reopen();
        continue;
      }
      if (++count > 1) _exit(128 + signal);
      tell(log, serve::LogLevel::kInfo, "ending; once more to end at once");
      server.stop();
    }
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

void add_network(Arguments& app, Flags& flags) {
  app.option("--host", flags.host, "The address to listen on; 0.0.0.0: all of this machine")
      .type_name("ADDRESS")
      .show_default();
  app.option("--port", flags.port, "0: any free one")
      .type_name("N")
      .whole_number(0, 65535)
      .show_default();
  app.option("--queue", flags.queue, "Requests that may wait; others get status 429")
      .type_name("N")
      .whole_number(0, kMostQueued)
      .show_default();
  app.option("--api-key-file", flags.key_file,
             "Requests must bring one of its keys: one a line, or JSON with names\nand limits")
      .type_name("FILE");
  const Option certificate =
      app.option("--tls-cert", flags.tls.certificate,
                 "HTTPS with this certificate, PEM, behind it those that lead to a known one")
          .type_name("FILE")
          .files({"pem", "crt", "cer"});
  const Option key =
      app.option("--tls-key", flags.tls.key, "The private key of the certificate, PEM")
          .type_name("FILE")
          .files({"pem", "key"})
          .needs(certificate);
  certificate.needs(key);
  app.option("--cors", flags.origins, "Origins whose pages may ask, '*': any").type_name("ORIGIN");
  app.option("--allow-host", flags.hosts, "Names to answer to, beside localhost").type_name("NAME");
  app.option("--max-body", flags.body, "Megabytes of a request")
      .type_name("MB")
      .whole_number(1, 4096)
      .show_default();
  app.option("--response-memory", flags.responses,
             "Megabytes of stored responses (/v1/responses); 0: none are stored")
      .type_name("MB")
      .whole_number(0, 1 << 20)
      .show_default();
  app.option("--grace", flags.grace, "Seconds that answers have to end after SIGTERM")
      .type_name("S")
      .whole_number(0, 3600)
      .show_default();
}

// A flag whose value is one of some words.
template <typename T>
void add_choice(Arguments& app, const std::string& name, T& value, const std::string& help,
                const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  app.option_function(
         name,
         [name, &value, choices, words](const std::string& text) {
           const auto found = std::ranges::find(words, text);
           if (found == words.end())
             throw Misuse(
                 name, fmt::format("'{}' is none of {}", printable(text), fmt::join(words, ", ")));
           value = choices[static_cast<size_t>(found - words.begin())].second;
         },
         help)
      .type_name("WORD")
      .choices(words);
}

void add_log(Arguments& app, Flags& flags) {
  add_choice<serve::LogFormat>(
      app, "--log-format", flags.log.format, "Lines of the log: text, or json for programs [text]",
      {{"text", serve::LogFormat::kText}, {"json", serve::LogFormat::kJson}});
  add_choice<serve::LogLevel>(app, "--log-level", flags.log.level,
                              "What is logged; info has a line for each request [info]",
                              {{"error", serve::LogLevel::kError},
                               {"warn", serve::LogLevel::kWarn},
                               {"info", serve::LogLevel::kInfo},
                               {"debug", serve::LogLevel::kDebug}});
  app.option("--log-file", flags.log.file,
             "Append the log to this file, opened anew on SIGHUP [standard error]")
      .type_name("FILE");
  app.flag("--log-prompts", flags.log.prompts, "Log the texts of requests and answers too");
}

// Which models there are, and which of them are loaded.
void add_models(Arguments& app, Flags& flags) {
  flags.model.add_path(app);
  flags.fetch.add(app);
  app.take_words("MODEL", flags.paths, "Further models").models();
  app.option("-a,--alias", flags.aliases,
             "What clients call the models, in their order (file name)")
      .type_name("NAME");
  app.option("--memory", flags.memory,
             "Megabytes for all loaded models: weights, caches and activations. Others are\n"
             "loaded when asked for, and those go that were not used for longest; 0: all\n"
             "are loaded")
      .type_name("MB")
      .whole_number(0, 1 << 24);
  app.option_function(
         "--keep-alive",
         [&](const std::string& text) {
           const std::optional<double> found = serve::parse_duration(text);
           if (!found)
             throw Misuse(
                 "--keep-alive",
                 fmt::format("'{}' is no duration, expected one such as 5m, 90s, 0", text));
           flags.keep_alive = *found;
         },
         "How long a model stays loaded without requests; -1: for ever [-1]")
      .type_name("TIME");
  const Option folder = app.option("--prefix-cache", flags.prefix_folder,
                                   "Folder in which caches of conversations are kept on disk, so "
                                   "that they are\nknown after a restart")
                            .type_name("DIR");
  app.option("--prefix-cache-size", flags.prefix_bytes, "Megabytes of all files of that folder")
      .type_name("MB")
      .whole_number(1, 1 << 24)
      .show_default()
      .needs(folder);
  app.option("--pin", flags.pinned,
             "Models that stay once they are loaded, by the names of --alias")
      .type_name("NAME");
}

// Throws Misuse for names of no model.
void check_names(const Flags& flags) {
  if (flags.aliases.size() > flags.paths.size())
    throw Misuse("--alias",
                 fmt::format("{} names for {} models", flags.aliases.size(), flags.paths.size()));
  std::vector<std::string> ids;
  for (size_t i = 0; i < flags.paths.size(); ++i) ids.push_back(id_of(flags, i));
  for (const std::string& id : flags.pinned)
    if (std::ranges::find(ids, id) == ids.end())
      throw Misuse("--pin", fmt::format("'{}' is none of the models {}", id, fmt::join(ids, ", ")));
}

Flags read(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app(
      "serve",
      "Answers over HTTP as OpenAI's, Anthropic's and Ollama's servers do, and with a web page.",
      "  veery serve model.gguf\n  curl http://127.0.0.1:8080/v1/chat/completions -d "
      "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'");
  add_models(app, flags);
  add_network(app, flags);
  add_log(app, flags);
  flags.scheduler.add(app);
  flags.model.add_chat_template(app);
  flags.model.add_context(app);
  flags.model.add_threads(app);
  flags.model.add_exact(app);
  flags.model.add_cache_types(app);
  flags.model.add_device(app);
  flags.model.add_gpu_layers(app);
  app.read(std::move(arguments));
  flags.scheduler.note_given(app);
  flags.paths.insert(flags.paths.begin(), flags.model.path);
  check_names(flags);
  read_value("--host", [&] { serve::check_host(flags.host); });
  return flags;
}

std::string description(const serve::Models::View& view) {
  const std::string id = printable(view.card->id, 200);
  if (!view.model)
    return fmt::format("{} is loaded when it is asked for, {}", id,
                       human_bytes(static_cast<double>(view.bytes)));
  const Scheduler* scheduler = view.model->scheduler();
  if (scheduler == nullptr) return fmt::format("{} makes {}", id, view.card->makes);
  return fmt::format("{} answers, {} at a time, context {}, caches {}", id, scheduler->slots(),
                     scheduler->context(),
                     human_bytes(static_cast<double>(scheduler->cache_bytes())));
}

void load_models(const Flags& flags, serve::Models& models, serve::Log& log) {
  SchedulerOptions options = flags.scheduler.options(flags.model);
  options.queue = static_cast<int32_t>(flags.queue);
  options.prefix_store = {flags.prefix_folder, static_cast<uint64_t>(flags.prefix_bytes) * 1000000};
  if (options.draft_model && flags.paths.size() > 1)
    throw Misuse("--draft-model", "drafts for one model, not for several");
  if (flags.model.chosen_template() && flags.paths.size() > 1)
    throw Misuse("--chat-template", "is for one model, not for several");
  for (size_t i = 0; i < flags.paths.size(); ++i) {
    const std::string& path = flags.paths[i];
    fetch_if_missing(path, flags.fetch);
    const std::string id = id_of(flags, i);
    Progress bar("loading " + id);
    LoadOptions load = flags.model.load_options(bar, {});
    load.clip_context = flags.paths.size() > 1;  // one number for all of them
    const auto progress = std::exchange(load.progress, nullptr);
    const bool pinned = std::ranges::find(flags.pinned, id) != flags.pinned.end();
    models.add({id, path, load, options, pinned});
    if (const std::string& note = models.view(id).card->plan.note; !note.empty())
      tell(log, serve::LogLevel::kWarn,
           fmt::format("{}: memory is short: {}", printable(id, 200), note));
    if (models.fits(id)) models.find(id, {}, progress);
    bar.clear();
    tell(log, serve::LogLevel::kInfo, description(models.view(id)));
  }
}

serve::HttpOptions http_options(const Flags& flags, serve::Context& context) {
  return {.host = flags.host,
          .port = static_cast<uint16_t>(flags.port),
          .body_bytes = static_cast<size_t>(flags.body) * 1000000,
          .tls = flags.tls,
          .warn =
              [&context](const std::string& what) {
                context.log->note(serve::LogLevel::kWarn, "a request ended by an error",
                                  {{"error", what}});
              },
          .finished =
              [&context](const serve::RequestRecord& record) {
                context.http.count(record);
                context.log->request(record);
              }};
}

}  // namespace

void serve_verb(std::vector<std::string> arguments) {
  const Flags flags = read(std::move(arguments));
  limit_arenas();
  if (!flags.prefix_folder.empty()) check_prefix_folder(flags.prefix_folder);
  Signals::block();
  serve::Log log(flags.log);
  serve::Context context;
  context.log = &log;
  context.started = seconds_now();
  context.version = std::string(version());
  context.responses.set_limit(static_cast<size_t>(flags.responses) * 1000000);
  context.models.configure(
      {.memory = static_cast<size_t>(flags.memory) * 1000000, .keep_alive = flags.keep_alive});
  serve::ServiceOptions options{.origins = flags.origins, .hosts = flags.hosts};
  if (!flags.key_file.empty())
    options.api_keys =
        serve::parse_api_keys(read_text(flags.key_file, kConfigFile), flags.key_file);
  options.loopback =
      flags.host == "localhost" || flags.host.starts_with("127.") || flags.host == "::1";
  serve::Service service(context, options);
  serve::HttpServer server(http_options(flags, context),
                           [&](const serve::HttpRequest& request, serve::Reply& reply) {
                             service.handle(request, reply);
                           });
  if (!options.loopback && options.api_keys.empty())
    tell(log, serve::LogLevel::kWarn,
         "other machines can reach this server, and it takes requests without an API key");
  const Signals signals(server, log);
  // Requests that come while the models load are told so.
  std::exception_ptr failure;
  std::thread loader([&] {
    try {
      load_models(flags, context.models, log);
      context.ready = true;
      tell(log, serve::LogLevel::kInfo,
           fmt::format("serving on {}://{}:{}", flags.tls.key.empty() ? "http" : "https",
                       flags.host, server.port()));
    } catch (...) {
      failure = std::current_exception();
      server.stop();
    }
  });
  server.run(static_cast<double>(flags.grace));
  loader.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace veery::cli
