// Loading models, and the memory of their devices.
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/cores.h"
#include "capi/handles.h"
#include "capi/structures.h"
#include "kernels/find_backend.h"

namespace veery::capi {
namespace {

veery_load_options default_load_options() {
  const SchedulerOptions options;
  veery_load_options result{};
  result.size = sizeof result;
  result.slots = options.slots;
  result.queue = options.queue;
  result.kept = options.kept;
  result.gpu_layers = -1;
  return result;
}

void check_range(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw Error(ErrorKind::kInput, "veery_load_options: {} is {}, expected {} to {}", name, value,
                low, high);
}

// Returns the executor of all models of this process that were loaded with this number of threads.
// It lives as long as one of them. A child process makes its own: it has none of the threads.
std::shared_ptr<Executor> process_executor(int threads) {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, int>, std::weak_ptr<Executor>> executors;
  const auto find = [&](std::shared_ptr<Executor> made) {
    const std::lock_guard lock(mutex);
    std::erase_if(executors, [](const auto& known) { return known.second.expired(); });
    std::weak_ptr<Executor>& known = executors[{::getpid(), threads}];
    if (std::shared_ptr<Executor> executor = known.lock()) return executor;
    known = made;
    return made;
  };
  if (std::shared_ptr<Executor> known = find(nullptr)) return known;
  // Threads are started without the lock: a process that is forked meanwhile would inherit it.
  return find(std::make_shared<Executor>(threads));
}

// Selects the device, the layers on it and the chunk size.
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
  options.backends = options.executor->devices(device, why, given.relaxed != 0);
  if (given.gpu_layers >= 0) options.backend_layers = given.gpu_layers;
  if (given.device_bytes > 0) {
    bool limited = false;
    for (const auto& backend : options.backends)
      if (MemoryPool* pool = backend->device().pool()) {
        pool->set_limit(given.device_bytes);
        limited = true;
      }
    if (!limited && device != "auto") refuse("device_bytes", "one with memory of its own");
  }
  const bool filled = !options.backends.empty() && given.gpu_layers != 0;
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
  check_range("kept", given.kept, 0, kMostKept);
  check_range("gpu_layers", given.gpu_layers, -1, 1 << 20);
  LoadOptions options;
  options.executor = process_executor(given.threads);
  options.threads = given.threads;
  options.context = given.context;
  options.exact = given.exact != 0;
  place(options, given);
  std::optional<Makes> makes;
  if (given.kind != VEERY_KIND_AUTO) makes = static_cast<Makes>(given.kind);
  SchedulerOptions scheduling{.slots = given.slots, .queue = given.queue, .kept = given.kept};
  if (given.cache_bytes != 0) {
    scheduling.cache_bytes = static_cast<size_t>(given.cache_bytes);
    scheduling.at_least_one = false;
  }
  return std::make_shared<LoadedModel>(path, makes, options, scheduling);
}

}  // namespace

}  // namespace veery::capi

using namespace veery;
using namespace veery::capi;

veery_status veery_load_options_init(veery_load_options* options, size_t size) {
  return guarded([&] {
    give_structure(options, size, default_load_options(), "veery_load_options");
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
    required(info, "info");
    const Model& of = loaded.model();
    const ModelSummary summary = summarize(of.file());
    veery_model_info result{};
    result.kind = static_cast<int32_t>(loaded.makes());
    result.vocab = static_cast<int32_t>(of.config().vocab);
    result.context = loaded.context();
    result.has_template = of.chat_template() != nullptr ? 1 : 0;
    result.columns = static_cast<int32_t>(loaded.columns());
    result.parameters = summary.parameters;
    result.weight_bytes = summary.weight_bytes;
    result.load_seconds = of.load_seconds();
    give_structure(info, info->size, result, "veery_model_info");
    return VEERY_OK;
  });
}

veery_status veery_model_get_device_memory(const veery_model* model, veery_device_memory* memory) {
  return guarded([&] {
    const Model& of = required(model, "model").loaded->model();
    required(memory, "memory");
    veery_device_memory result{};
    if (const auto used = of.device_memory()) {
      result.active = used->active;
      result.peak = used->peak;
      result.cached = used->cached;
    }
    for (const MemoryPool* pool : of.memory_pools()) result.available += pool->available();
    give_structure(memory, memory->size, result, "veery_device_memory");
    return VEERY_OK;
  });
}

veery_status veery_model_limit_device_memory(veery_model* model, uint64_t bytes, uint64_t cached) {
  return guarded([&] {
    const std::vector<MemoryPool*> pools = required(model, "model").loaded->model().memory_pools();
    if (pools.empty())
      throw Error(ErrorKind::kUnsupported, "the model's device has no memory of its own");
    for (MemoryPool* pool : pools) {
      pool->set_cache_limit(cached);
      pool->set_limit(bytes);
    }
    return VEERY_OK;
  });
}

veery_status veery_model_clear_device_cache(veery_model* model) {
  return guarded([&] {
    for (MemoryPool* pool : required(model, "model").loaded->model().memory_pools()) {
      pool->clear_cache();
      pool->reset_peak();
    }
    return VEERY_OK;
  });
}
