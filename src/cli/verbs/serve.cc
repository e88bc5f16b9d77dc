// serve.cc: `veery serve`: answers over HTTP.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "base/foreign_file.h"
#include "cli/flags/scheduler_flags.h"
#include "cli/hub/fetch.h"
#include "cli/parts/cli.h"
#include "cli/parts/output.h"
#include "cli/parts/progress.h"
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
  serve::KeepAlive keep_alive = -1;
  std::string key_file;
  serve::TlsFiles tls;
};

// A key a line; white space around it and empty lines do not count.
std::vector<std::string> read_keys(const std::string& path) {
  std::vector<std::string> keys;
  const std::string text = read_text(path, kConfigFile);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t first = text.find_first_not_of(" \t\r\n", begin);
    if (first < end) {
      const size_t last = text.find_last_not_of(" \t\r", end - 1);
      keys.push_back(text.substr(first, last - first + 1));
    }
    begin = end + 1;
  }
  if (keys.empty()) throw Error(ErrorKind::kInput, "{}: there is no key in it", path);
  return keys;
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

/// SIGINT and SIGTERM end the server; those that come later end the program.
class Signals {
 public:
  explicit Signals(serve::HttpServer& server) : thread_([this, &server] { wait(server); }) {}
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
  void wait(serve::HttpServer& server) {
    const sigset_t set = wanted();
    for (int count = 0, signal = 0; sigwait(&set, &signal) == 0 && !over_;) {
      if (signal == SIGUSR1) continue;
      if (++count > 1) _exit(128 + signal);
      write_error("veery: ending; once more to end at once\n");
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
  app.option("--api-key-file", flags.key_file, "Keys, one a line; requests must bring one of them")
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

// Which models there are, and which of them are loaded.
void add_models(Arguments& app, Flags& flags) {
  flags.model.add_path(app);
  flags.fetch.add(app);
  app.take_words("MODEL", flags.paths, "Further models").models();
  app.option("-a,--alias", flags.aliases,
             "What clients call the models, in their order (file name)")
      .type_name("NAME");
  app.option("--memory", flags.memory,
             "Megabytes for all loaded models, weights and caches: others are loaded when\n"
             "asked for, and those go that were not used for longest; 0: all are loaded")
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
  flags.scheduler.add(app);
  flags.model.add_chat_template(app);
  flags.model.add_context(app);
  flags.model.add_threads(app);
  flags.model.add_exact(app);
  flags.model.add_cache_types(app);
  flags.model.add_device(app);
  flags.model.add_gpu_layers(app);
  app.read(std::move(arguments));
  flags.paths.insert(flags.paths.begin(), flags.model.path);
  check_names(flags);
  read_value("--host", [&] { serve::check_host(flags.host); });
  return flags;
}

void tell(const serve::Models::View& view) {
  const std::string id = printable(view.card->id, 200);
  if (!view.model)
    return write_error(fmt::format("veery: {} is loaded when it is asked for, {}\n", id,
                                   human_bytes(static_cast<double>(view.bytes))));
  const Scheduler* scheduler = view.model->scheduler();
  if (scheduler == nullptr)
    return write_error(fmt::format("veery: {} makes {}\n", id, view.card->makes));
  write_error(fmt::format("veery: {} answers, {} at a time, context {}, caches {}\n", id,
                          scheduler->slots(), scheduler->context(),
                          human_bytes(static_cast<double>(scheduler->cache_bytes()))));
}

void load_models(const Flags& flags, serve::Models& models) {
  SchedulerOptions options = flags.scheduler.options(flags.model);
  options.queue = static_cast<int32_t>(flags.queue);
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
    if (models.fits(id)) models.find(id, {}, progress);
    bar.clear();
    tell(models.view(id));
  }
}

}  // namespace

void serve_verb(std::vector<std::string> arguments) {
  const Flags flags = read(std::move(arguments));
  Signals::block();
  serve::Context context;
  context.started = seconds_now();
  context.version = std::string(version());
  context.responses.set_limit(static_cast<size_t>(flags.responses) * 1000000);
  context.models.configure(
      {.memory = static_cast<size_t>(flags.memory) * 1000000, .keep_alive = flags.keep_alive});
  serve::ServiceOptions options{.origins = flags.origins, .hosts = flags.hosts};
  if (!flags.key_file.empty()) options.api_keys = read_keys(flags.key_file);
  options.loopback =
      flags.host == "localhost" || flags.host.starts_with("127.") || flags.host == "::1";
  serve::Service service(context, options);
  serve::HttpServer server({.host = flags.host,
                            .port = static_cast<uint16_t>(flags.port),
                            .body_bytes = static_cast<size_t>(flags.body) * 1000000,
                            .tls = flags.tls,
                            .warn =
                                [](const std::string& what) {
                                  write_error(fmt::format("veery: a request: {}\n", what));
                                }},
                           [&](const serve::HttpRequest& request, serve::Reply& reply) {
                             service.handle(request, reply);
                           });
  if (!options.loopback && options.api_keys.empty())
    write_error("veery: warning: other machines can reach this server, and no API key is wanted\n");
  const Signals signals(server);
  // Requests that come while the models load are told so.
  std::exception_ptr failure;
  std::thread loader([&] {
    try {
      load_models(flags, context.models);
      context.ready = true;
      write_error(fmt::format("veery: serving on {}://{}:{}\n",
                              flags.tls.key.empty() ? "http" : "https", flags.host, server.port()));
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
