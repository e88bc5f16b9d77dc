// serve.cc: `veery serve`: serves models over HTTP.
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
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "cli/args/arguments.h"
#include "cli/args/choice.h"
#include "cli/args/model_arguments.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/hub/fetch.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "cli/output/version.h"
#include "cli/verbs/verbs.h"
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

// glibc's malloc keeps freed memory in per-thread arenas. Limiting the arenas to 4 keeps the growth
// of the process small: answering random JSON schemas, it grew by about 6 MiB a minute without the
// limit. Decode steps do not allocate, so threads do not wait for an arena. Settings of the user
// take precedence.
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

// Logs an event of the server, on standard error too if the log is a file.
void log_event(serve::Log& log, serve::LogLevel level, const std::string& message) {
  log.note(level, message);
  if (log.options().file.empty()) return;
  write_error(
      fmt::format("veery: {}{}\n", level == serve::LogLevel::kWarn ? "warning: " : "", message));
}

/// SIGINT and SIGTERM stop the server, a second one ends the program. SIGHUP reopens the log file,
/// or stops the server if there is none.
class Signals {
 public:
  Signals(serve::HttpServer& server, serve::Log& log)
      : thread_([this, &server, &log] { wait(server, log); }) {}
  ~Signals() {
    over_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }
  /// Must be called before any other thread starts.
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
      log_event(log, serve::LogLevel::kInfo, "stopping; repeat the signal to exit at once");
      server.stop();
    }
  }
  std::atomic<bool> over_{false};
  std::thread thread_;
};

void add_network(Arguments& app, Flags& flags) {
  app.option("--host", flags.host, "Address to listen on; 0.0.0.0: all addresses")
      .type_name("ADDRESS")
      .show_default();
  app.option("--port", flags.port, "Port to listen on; 0: any free one")
      .type_name("N")
      .whole_number(0, 65535)
      .show_default();
  app.option("--queue", flags.queue, "Requests that may wait; further ones get status 429")
      .type_name("N")
      .whole_number(0, kMostQueued)
      .show_default();
  app.option("--api-key-file", flags.key_file,
             "Require an API key of this file: one per line, or JSON with names and limits")
      .type_name("FILE");
  const Option certificate = app.option("--tls-cert", flags.tls.certificate,
                                        "Serve HTTPS with this certificate chain (PEM)")
                                 .type_name("FILE")
                                 .files({"pem", "crt", "cer"});
  const Option key = app.option("--tls-key", flags.tls.key, "Private key of the certificate (PEM)")
                         .type_name("FILE")
                         .files({"pem", "key"})
                         .needs(certificate);
  certificate.needs(key);
  app.option("--cors", flags.origins,
             "Origin whose pages may send requests; '*': any; repeatable [none]")
      .type_name("ORIGIN");
  app.option("--allow-host", flags.hosts,
             "Host name to accept in addition to localhost; repeatable")
      .type_name("NAME");
  app.option("--max-body", flags.body, "Maximum size of a request body, in megabytes")
      .type_name("MB")
      .whole_number(1, 4096)
      .show_default();
  app.option("--response-memory", flags.responses,
             "Memory for stored responses (/v1/responses), in megabytes; 0: store none")
      .type_name("MB")
      .whole_number(0, 1 << 20)
      .show_default();
  app.option("--grace", flags.grace, "Seconds that running answers may take after SIGTERM")
      .type_name("S")
      .whole_number(0, 3600)
      .show_default();
}

void add_log(Arguments& app, Flags& flags) {
  add_choice<serve::LogFormat>(
      app, "--log-format", flags.log.format, "Format of the log: text or json [text]",
      {{"text", serve::LogFormat::kText}, {"json", serve::LogFormat::kJson}});
  add_choice<serve::LogLevel>(app, "--log-level", flags.log.level,
                              "Lowest level logged: error, warn, info (each request), debug [info]",
                              {{"error", serve::LogLevel::kError},
                               {"warn", serve::LogLevel::kWarn},
                               {"info", serve::LogLevel::kInfo},
                               {"debug", serve::LogLevel::kDebug}});
  app.option("--log-file", flags.log.file,
             "Append the log to FILE; SIGHUP reopens it [standard error]")
      .type_name("FILE");
  app.flag("--log-prompts", flags.log.prompts, "Also log the texts of requests and answers");
}

// Adds the flags of the models: which there are, and which of them are loaded.
void add_models(Arguments& app, Flags& flags) {
  flags.model.add_path(app);
  flags.fetch.add(app);
  app.take_words("MODEL", flags.paths, "Further models").models();
  app.option("-a,--alias", flags.aliases,
             "Names of the models in requests, in the order of the models [file names]")
      .type_name("NAME");
  app.option("--memory", flags.memory,
             "Memory for all loaded models, in megabytes; 0: no limit [0].\nWith a limit, models "
             "load on request and the least recently used are unloaded.")
      .type_name("MB")
      .whole_number(0, 1 << 24);
  app.option_function(
         "--keep-alive",
         [&](const std::string& text) {
           const std::optional<double> found = serve::parse_duration(text);
           if (!found)
             throw Misuse("--keep-alive",
                          fmt::format("found '{}', expected a duration such as 5m, 90s, 0", text));
           flags.keep_alive = *found;
         },
         "Unload a model after this time without requests; -1: never [-1]")
      .type_name("TIME");
  const Option folder = app.option("--prefix-cache", flags.prefix_folder,
                                   "Keep prefix cache entries in this folder, across restarts")
                            .type_name("DIR");
  app.option("--prefix-cache-size", flags.prefix_bytes, "Maximum size of that folder, in megabytes")
      .type_name("MB")
      .whole_number(1, 1 << 24)
      .show_default()
      .needs(folder);
  app.option("--pin", flags.pinned, "Never unload the model of this alias; repeatable")
      .type_name("NAME");
}

// Throws Misuse for names without a model.
void check_names(const Flags& flags) {
  if (flags.aliases.size() > flags.paths.size())
    throw Misuse("--alias", fmt::format("found {} names for {} models", flags.aliases.size(),
                                        flags.paths.size()));
  std::vector<std::string> ids;
  for (size_t i = 0; i < flags.paths.size(); ++i) ids.push_back(id_of(flags, i));
  for (const std::string& id : flags.pinned)
    if (std::ranges::find(ids, id) == ids.end()) throw Misuse("--pin", not_one_of(id, ids));
}

Flags read(std::vector<std::string> arguments) {
  Flags flags;
  Arguments app(
      "serve",
      "Serves models over HTTP with the APIs of OpenAI, Anthropic and Ollama, and a web page.",
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
    return fmt::format("{} loads on request, {}", id, human_bytes(static_cast<double>(view.bytes)));
  const Scheduler* scheduler = view.model->scheduler();
  if (scheduler == nullptr) return fmt::format("{} makes {}", id, view.card->makes);
  return fmt::format("{} is ready: {} answers at a time, context {}, KV cache {}", id,
                     scheduler->slots(), scheduler->context(),
                     human_bytes(static_cast<double>(scheduler->cache_bytes())));
}

void load_models(const Flags& flags, serve::Models& models, serve::Log& log) {
  SchedulerOptions options = flags.scheduler.options(flags.model);
  options.queue = static_cast<int32_t>(flags.queue);
  options.prefix_store = {flags.prefix_folder, static_cast<uint64_t>(flags.prefix_bytes) * 1000000};
  if (options.draft_model && flags.paths.size() > 1)
    throw Misuse("--draft-model", "needs a single model");
  if (flags.model.chosen_template() && flags.paths.size() > 1)
    throw Misuse("--chat-template", "needs a single model");
  for (size_t i = 0; i < flags.paths.size(); ++i) {
    const std::string& path = flags.paths[i];
    fetch_if_missing(path, flags.fetch);
    const std::string id = id_of(flags, i);
    Progress bar("loading " + id);
    LoadOptions load = flags.model.load_options(bar, {});
    load.clip_context = flags.paths.size() > 1;  // -c may exceed the limit of some of them
    const auto progress = std::exchange(load.progress, nullptr);
    const bool pinned = std::ranges::find(flags.pinned, id) != flags.pinned.end();
    models.add({id, path, load, options, pinned});
    if (const std::string& note = models.view(id).card->plan.note; !note.empty())
      log_event(log, serve::LogLevel::kWarn,
                fmt::format("{}: memory is short: {}", printable(id, 200), note));
    if (models.fits(id)) models.find(id, {}, progress);
    bar.clear();
    log_event(log, serve::LogLevel::kInfo, description(models.view(id)));
  }
}

serve::HttpOptions http_options(const Flags& flags, serve::Context& context) {
  return {.host = flags.host,
          .port = static_cast<uint16_t>(flags.port),
          .body_bytes = static_cast<size_t>(flags.body) * 1000000,
          .tls = flags.tls,
          .warn =
              [&context](const std::string& what) {
                context.log->note(serve::LogLevel::kWarn, "a request failed", {{"error", what}});
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
    log_event(log, serve::LogLevel::kWarn,
              "other machines can reach this server, and it takes requests without an API key");
  const Signals signals(server, log);
  // Serves while the models load, so that requests get an error that says so.
  std::exception_ptr failure;
  std::thread loader([&] {
    try {
      load_models(flags, context.models, log);
      context.ready = true;
      log_event(log, serve::LogLevel::kInfo,
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
