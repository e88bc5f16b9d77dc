// Messages, models and texts.
#include <cstdlib>
#include <new>

#include "base/cores.h"
#include "base/utf8.h"
#include "capi/handles.h"
#include "chat/chat.h"
#include "kernels/find_backend.h"

namespace veery::capi {
namespace {

thread_local std::string last_message;

veery_status keep(veery_status status, const char* message) noexcept {
  try {
    last_message = valid_utf8(message);
  } catch (...) {
    last_message.clear();  // no memory for it
  }
  return status;
}

veery_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInput: return VEERY_ERROR_INPUT;
    case ErrorKind::kFormat: return VEERY_ERROR_FORMAT;
    case ErrorKind::kUnsupported: return VEERY_ERROR_UNSUPPORTED;
    case ErrorKind::kLimit: return VEERY_ERROR_LIMIT;
    case ErrorKind::kNotFound: return VEERY_ERROR_NOT_FOUND;
    case ErrorKind::kIo: return VEERY_ERROR_IO;
    case ErrorKind::kBug: return VEERY_ERROR_BUG;
  }
  return VEERY_ERROR_BUG;
}

veery_load_options default_load_options() {
  const SchedulerOptions options;
  veery_load_options result{};
  result.size = sizeof result;
  result.slots = options.slots;
  result.queue = options.queue;
  result.kept = options.kept;
  result.cache_bytes = options.cache_bytes;
  result.gpu_layers = -1;
  return result;
}

void check_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw Error(ErrorKind::kInput, "veery_load_options: {} is {}, expected {} to {}", name, value,
                low, high);
}

// Where the model is to be, and what of it.
void place(LoadOptions& options, const veery_load_options& given) {
  const std::string device = given.device == nullptr ? "cpu" : given.device;
  if (!is_device(device))
    throw Error(ErrorKind::kInput, "veery_load_options: device is '{}', expected one of {}", device,
                kDevices);
  const auto refuse = [&](const char* name, const char* expected) {
    throw Error(ErrorKind::kInput, "veery_load_options: {} is set and device is '{}', expected {}",
                name, device, expected);
  };
  const bool nvidia = device.starts_with("cuda") || device == "auto";
  if (given.relaxed != 0 && !nvidia) refuse("relaxed", "an NVIDIA GPU (cuda)");
  if (given.relaxed != 0 && given.exact != 0)
    throw Error(ErrorKind::kInput, "veery_load_options: found exact and relaxed, expected one");
  if (given.gpu_layers > 0 && device == "cpu") refuse("gpu_layers", "a GPU");
  std::string why;
  options.backend = find_backend(device, why, given.relaxed != 0);
  if (given.gpu_layers >= 0) options.backend_layers = given.gpu_layers;
  if (given.device_bytes > 0) {
    MemoryPool* pool = options.backend ? options.backend->device().pool() : nullptr;
    if (pool == nullptr && device != "auto") refuse("device_bytes", "one with memory of its own");
    if (pool != nullptr) pool->set_limit(given.device_bytes);
  }
  const bool filled = options.backend && given.gpu_layers != 0;
  options.chunk = given.chunk > 0 ? given.chunk
                  : filled        ? LoadOptions::kBackendChunk
                                  : LoadOptions().chunk;
}

std::shared_ptr<LoadedModel> load(const std::string& path, const veery_load_options& given) {
  check_range("kind", given.kind, VEERY_KIND_AUTO, VEERY_KIND_SPEECH);
  check_range("threads", given.threads, 0, most_threads());
  check_range("context", given.context, 0, kMostContext);
  check_range("chunk", given.chunk, 0, 1 << 16);
  check_range("slots", given.slots, 1, kMostSlots);
  check_range("queue", given.queue, 0, kMostQueued);
  check_range("kept", given.kept, 1, kMostKept);
  check_range("gpu_layers", given.gpu_layers, -1, 1 << 20);
  LoadOptions options;
  options.threads = given.threads;
  options.context = given.context;
  options.exact = given.exact != 0;
  place(options, given);
  std::optional<Makes> makes;
  if (given.kind != VEERY_KIND_AUTO) makes = static_cast<Makes>(given.kind);
  return std::make_shared<LoadedModel>(
      path, makes, options,
      SchedulerOptions{.slots = given.slots,
                       .queue = given.queue,
                       .kept = given.kept,
                       .cache_bytes = static_cast<size_t>(given.cache_bytes),
                       .at_least_one = given.cache_bytes == SchedulerOptions{}.cache_bytes});
}

// nullptr: the model is in the system's memory.
MemoryPool* pool_of(const veery_model& model) {
  Backend* backend = model.loaded->model().backend();
  return backend == nullptr ? nullptr : backend->device().pool();
}

}  // namespace

veery_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return keep(status_of(error.kind()), error.what());
  } catch (const Busy& error) {
    return keep(VEERY_ERROR_BUSY, error.what());
  } catch (const std::bad_alloc&) {
    return keep(VEERY_ERROR_MEMORY, "the system gives no more memory");
  } catch (const std::exception& error) {
    return keep(VEERY_ERROR_BUG, error.what());
  } catch (...) {
    return keep(VEERY_ERROR_BUG, "an exception of an unknown type");
  }
}

std::string_view text_of(const char* text, size_t length, const char* name) {
  if (text == nullptr && length == 0) return {};
  required(text, name);
  return length == VEERY_NUL ? std::string_view(text) : std::string_view(text, length);
}

std::string required_text(const char* text, const char* name) { return &required(text, name); }

std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* name) {
  if (count > 0) required(texts, name);
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr) throw Error(ErrorKind::kInput, "{}[{}] is null", name, i);
    result.emplace_back(texts[i]);
  }
  return result;
}

std::vector<int32_t> ids_of(const int32_t* ids, size_t count) {
  if (count > 0) required(ids, "ids");
  return {ids, ids + count};
}

void give_bytes(const void* data, size_t bytes, void** out) {
  void* copy = std::malloc(bytes + 1);  // never null for nothing
  if (copy == nullptr) throw std::bad_alloc();
  if (bytes > 0) std::memcpy(copy, data, bytes);
  static_cast<char*>(copy)[bytes] = 0;
  *out = copy;
}

void give_text(std::string_view text, char** out, size_t* length) {
  void* copy = nullptr;
  give_bytes(text.data(), text.size(), &copy);
  *out = static_cast<char*>(copy);
  if (length != nullptr) *length = text.size();
}

RenderedConversation render_chat(const LoadedModel& loaded, const char* messages,
                                 const char* variables) {
  const Model& model = loaded.model();
  Conversation conversation{.messages =
                                parse_json(required_text(messages, "messages"), "messages")};
  check_messages(conversation.messages, "messages");
  if (conversation.messages.empty())
    throw Error(ErrorKind::kInput, "messages: found none, expected one or more");
  if (variables == nullptr) return render_conversation(model, conversation);
  Json more = parse_json(variables, "variables");
  if (!more.is_object())
    throw Error(ErrorKind::kInput, "variables: found a JSON {}, expected an object",
                more.type_name());
  if (const Json* tools = more.member("tools")) conversation.tools = *tools;
  if (const Json* parse = more.member("parse_special"); parse != nullptr && parse->is_boolean())
    conversation.parse_special = parse->boolean();
  conversation.variables = std::move(more);
  return render_conversation(model, conversation);
}

}  // namespace veery::capi

using namespace veery;
using namespace veery::capi;

const char* veery_version(void) { return VEERY_VERSION; }

const char* veery_status_name(veery_status status) {
  switch (status) {
    case VEERY_OK: return "ok";
    case VEERY_ERROR_INPUT: return "input";
    case VEERY_ERROR_FORMAT: return "format";
    case VEERY_ERROR_UNSUPPORTED: return "unsupported";
    case VEERY_ERROR_LIMIT: return "limit";
    case VEERY_ERROR_NOT_FOUND: return "not found";
    case VEERY_ERROR_IO: return "io";
    case VEERY_ERROR_BUG: return "bug";
    case VEERY_ERROR_MEMORY: return "memory";
    case VEERY_ERROR_BUSY: return "busy";
    case VEERY_END: return "end";
    case VEERY_TIMEOUT: return "timeout";
  }
  return "unknown";
}

const char* veery_last_message(void) { return last_message.c_str(); }

void veery_free(void* memory) { std::free(memory); }

veery_status veery_load_options_init(veery_load_options* options, size_t size) {
  return guarded([&] {
    veery_load_options& given = required(options, "options");
    check_size<veery_load_options>(size, "veery_load_options");
    given = default_load_options();
    return VEERY_OK;
  });
}

veery_status veery_model_load(const char* path, const veery_load_options* options,
                              veery_model** model) {
  return guarded([&] {
    required(model, "model") = nullptr;
    const std::string file = required_text(path, "path");
    const auto given = options_or(options, default_load_options(), "veery_load_options");
    *model = new veery_model{load(file, given)};
    return VEERY_OK;
  });
}

void veery_model_free(veery_model* model) { free_handle(model); }

veery_status veery_model_get_info(const veery_model* model, veery_model_info* info) {
  return guarded([&] {
    const LoadedModel& loaded = *required(model, "model").loaded;
    check_size<veery_model_info>(required(info, "info").size, "veery_model_info");
    const Model& of = loaded.model();
    const ModelSummary summary = summarize(of.file());
    veery_model_info result{};
    result.size = sizeof result;
    result.kind = static_cast<int32_t>(loaded.makes());
    result.vocab = static_cast<int32_t>(of.config().vocab);
    result.context = loaded.context();
    result.has_template = of.chat_template() != nullptr ? 1 : 0;
    result.columns = static_cast<int32_t>(loaded.columns());
    result.parameters = summary.parameters;
    result.weight_bytes = summary.weight_bytes;
    result.load_seconds = of.load_seconds();
    *info = result;
    return VEERY_OK;
  });
}

veery_status veery_model_get_device_memory(const veery_model* model, veery_device_memory* memory) {
  return guarded([&] {
    const MemoryPool* pool = pool_of(required(model, "model"));
    check_size<veery_device_memory>(required(memory, "memory").size, "veery_device_memory");
    veery_device_memory result{};
    result.size = sizeof result;
    if (pool != nullptr) {
      const DeviceMemory used = pool->memory();
      result.active = used.active;
      result.peak = used.peak;
      result.cached = used.cached;
      result.available = pool->available();
    }
    *memory = result;
    return VEERY_OK;
  });
}

veery_status veery_model_limit_device_memory(veery_model* model, uint64_t bytes, uint64_t cached) {
  return guarded([&] {
    MemoryPool* pool = pool_of(required(model, "model"));
    if (pool == nullptr)
      throw Error(ErrorKind::kUnsupported, "the model's device has no memory of its own");
    pool->set_cache_limit(cached);
    pool->set_limit(bytes);
    return VEERY_OK;
  });
}

veery_status veery_model_clear_device_cache(veery_model* model) {
  return guarded([&] {
    if (MemoryPool* pool = pool_of(required(model, "model"))) {
      pool->clear_cache();
      pool->reset_peak();
    }
    return VEERY_OK;
  });
}

veery_status veery_tokenize(const veery_model* model, const char* text, size_t length,
                            int32_t special, int32_t** ids, size_t* count) {
  return guarded([&] {
    const Tokenizer& tokenizer = required(model, "model").loaded->model().tokenizer();
    required(ids, "ids") = nullptr;
    required(count, "count") = 0;
    const bool add = special != 0;
    give_array(
        tokenizer.encode(text_of(text, length, "text"), {.add_special = add, .parse_special = add}),
        ids, count);
    return VEERY_OK;
  });
}

veery_status veery_detokenize(const veery_model* model, const int32_t* ids, size_t count,
                              int32_t special, char** text, size_t* length) {
  return guarded([&] {
    const Model& of = required(model, "model").loaded->model();
    required(text, "text") = nullptr;
    const std::vector<int32_t> list = ids_of(ids, count);
    check_ids(of, list);
    give_text(of.tokenizer().decode(list, special != 0), text, length);
    return VEERY_OK;
  });
}

veery_status veery_apply_template(const veery_model* model, const char* messages,
                                  const char* variables, char** text, size_t* length) {
  return guarded([&] {
    const LoadedModel& loaded = *required(model, "model").loaded;
    required(text, "text") = nullptr;
    give_text(render_chat(loaded, messages, variables).text, text, length);
    return VEERY_OK;
  });
}
