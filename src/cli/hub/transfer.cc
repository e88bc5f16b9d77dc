#include "cli/hub/transfer.h"

#include "base/error.h"
#ifdef VEERY_CURL
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "cli/output/version.h"
#endif

namespace veery::cli {

std::string url_path(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string url;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                       (byte >= 'A' && byte <= 'Z') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    if (plain)
      url += c;
    else
      (url += '%').append({kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return url;
}

#ifdef VEERY_CURL
namespace {

constexpr size_t kMaxBody = size_t{64} << 20;
constexpr size_t kMaxFailure = 2000;  // bytes kept of the body of an error
constexpr long kConnectSeconds = 20, kStalledSeconds = 30, kMaxRedirects = 8;

constexpr const char* kLibrary = "libcurl.so.4";

// The library, loaded on first use: with its dependencies, loading it takes as long as the rest of
// the start of the program.
struct Curl {
  Curl() : library(::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr)
      throw Error(ErrorKind::kUnsupported, "downloads need libcurl, but {} cannot be loaded: {}",
                  kLibrary, ::dlerror());
    find(init, "curl_global_init");
    find(easy_init, "curl_easy_init");
    find(easy_setopt, "curl_easy_setopt");
    find(easy_perform, "curl_easy_perform");
    find(easy_getinfo, "curl_easy_getinfo");
    find(easy_reset, "curl_easy_reset");
    find(easy_cleanup, "curl_easy_cleanup");
    find(easy_strerror, "curl_easy_strerror");
    if (init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      throw Error(ErrorKind::kIo, "{} cannot be initialised", kLibrary);
  }
  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function == nullptr) throw Error(ErrorKind::kUnsupported, "{} has no {}", kLibrary, name);
  }

  void* library;
  decltype(curl_global_init)* init;
  decltype(curl_easy_init)* easy_init;
  decltype(curl_easy_setopt)* easy_setopt;
  decltype(curl_easy_perform)* easy_perform;
  decltype(curl_easy_getinfo)* easy_getinfo;
  decltype(curl_easy_reset)* easy_reset;
  decltype(curl_easy_cleanup)* easy_cleanup;
  decltype(curl_easy_strerror)* easy_strerror;
};

const Curl& curl_library() {
  static const Curl library;  // stays loaded
  return library;
}

// The state of a request, for its callbacks.
struct State {
  CURL* curl = nullptr;
  Transferred* out = nullptr;
  const Sink* sink = nullptr;  ///< null: into memory
  bool first_reply = true;
  bool checked = false;  ///< whether the reply begins where the file ends
};

long status_of(CURL* curl) {
  long status = 0;
  curl_library().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

size_t take_header(char* data, size_t, size_t size, void* user) {
  auto& state = *static_cast<State*>(user);
  const std::string_view line(data, size);
  const size_t colon = line.find(':');
  if (line == "\r\n" || line == "\n") {
    // Headers before a redirect describe the file, those after it the store.
    if (status_of(state.curl) >= 300 && status_of(state.curl) < 400) state.first_reply = false;
  } else if (colon != std::string_view::npos && state.first_reply) {
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0)
      value.remove_prefix(1);
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0)
      value.remove_suffix(1);
    state.out->reply.headers[name] = value;
  }
  return size;
}

bool stop(State& state, Cut cut, std::string why) {
  state.out->cut = cut;
  state.out->why = std::move(why);
  return false;
}

// A server that ignores ranges sends the file from its beginning.
bool begin_file(State& state) {
  if (state.checked) return true;
  state.checked = true;
  if (state.out->have == 0 || status_of(state.curl) == 206) return true;
  if (::ftruncate(state.sink->descriptor, 0) != 0)
    return stop(state, Cut::kDisk, std::strerror(errno));
  state.out->have = 0;
  return true;
}

bool write_bytes(State& state, const char* data, size_t size) {
  if (size > state.sink->most || state.out->have > state.sink->most - size)
    return stop(state, Cut::kTooMuch, fmt::format("found more than {} bytes", state.sink->most));
  while (size > 0) {
    const ssize_t written =
        ::pwrite(state.sink->descriptor, data, size, static_cast<off_t>(state.out->have));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return stop(state, Cut::kDisk, std::strerror(errno));
    data += written;
    size -= static_cast<size_t>(written);
    state.out->have += static_cast<uint64_t>(written);
  }
  if (state.sink->arrived) state.sink->arrived(state.out->have);
  return true;
}

size_t take_body(char* data, size_t, size_t size, void* user) {
  auto& state = *static_cast<State*>(user);
  std::string& body = state.out->reply.body;
  if (status_of(state.curl) >= 300) {
    body.append(data, std::min(size, kMaxFailure - std::min(kMaxFailure, body.size())));
    return size;
  }
  if (state.sink != nullptr) return begin_file(state) && write_bytes(state, data, size) ? size : 0;
  if (body.size() + size > kMaxBody) {
    stop(state, Cut::kTooMuch, fmt::format("found more than {} bytes", kMaxBody));
    return 0;
  }
  body.append(data, size);
  return size;
}

}  // namespace

struct Transfer::Handle {
  explicit Handle(std::string given)
      : token(std::move(given)), agent(fmt::format("veery/{}", version())) {
    curl = curl_library().easy_init();
    if (curl == nullptr) throw Error(ErrorKind::kIo, "libcurl cannot be initialised");
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { curl_library().easy_cleanup(curl); }

  void prepare(const std::string& url, State& state) {
    curl_library().easy_reset(curl);
    const auto set = [&](CURLoption option, auto value) {
      curl_library().easy_setopt(curl, option, value);
    };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_USERAGENT, agent.c_str());
    set(CURLOPT_ERRORBUFFER, why);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMaxRedirects);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
    if (!token.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      set(CURLOPT_XOAUTH2_BEARER, token.c_str());
    }
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &state);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &state);
    state.curl = curl;
    why[0] = '\0';
  }

  void perform(State& state) {
    const CURLcode code = curl_library().easy_perform(curl);
    state.out->reply.status = status_of(curl);
    if (code == CURLE_OK || state.out->cut != Cut::kNone) return;
    stop(state, Cut::kNetwork, why[0] != '\0' ? why : curl_library().easy_strerror(code));
  }

  std::string token, agent;
  CURL* curl = nullptr;
  char why[CURL_ERROR_SIZE] = {};
};

Transfer::Transfer(std::string token) : handle_(std::make_unique<Handle>(std::move(token))) {}
Transfer::~Transfer() = default;

Transferred Transfer::get(const std::string& url) {
  Transferred found;
  State state{.out = &found};
  handle_->prepare(url, state);
  handle_->perform(state);
  return found;
}

Transferred Transfer::head(const std::string& url) {
  Transferred found;
  State state{.out = &found};
  handle_->prepare(url, state);
  curl_library().easy_setopt(handle_->curl, CURLOPT_NOBODY, 1L);
  curl_library().easy_setopt(handle_->curl, CURLOPT_FOLLOWLOCATION, 0L);
  handle_->perform(state);
  return found;
}

Transferred Transfer::download(const std::string& url, const Sink& sink) {
  Transferred found;
  found.have = sink.have;
  State state{.out = &found, .sink = &sink};
  handle_->prepare(url, state);
  if (sink.have > 0)
    curl_library().easy_setopt(handle_->curl, CURLOPT_RANGE, fmt::format("{}-", sink.have).c_str());
  handle_->perform(state);
  return found;
}

bool Transfer::has_token() const { return !handle_->token.empty(); }

#else

struct Transfer::Handle {};
Transfer::Transfer(std::string) {
  throw Error(ErrorKind::kUnsupported,
              "this veery was built without libcurl and cannot download models; use 'hf download "
              "ORG/NAME'");
}
Transfer::~Transfer() = default;
Transferred Transfer::get(const std::string&) { return {}; }
Transferred Transfer::head(const std::string&) { return {}; }
Transferred Transfer::download(const std::string&, const Sink&) { return {}; }
bool Transfer::has_token() const { return false; }

#endif

}  // namespace veery::cli
