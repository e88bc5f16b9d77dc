// trace.cc: records calls to NVIDIA's driver and the resulting GPU activity as a trace for Perfetto
// or Chrome.
//
//   export CPATH=/usr/local/cuda/include LIBRARY_PATH=/usr/local/cuda/lib64
//   g++ -std=c++20 -O2 -shared -fPIC bench/h200/trace.cc -o trace.so -lcupti
//   export CUDA_INJECTION64_PATH=$PWD/trace.so VEERY_TRACE=out.json
//   veery bench model.gguf --device cuda -p 0 -n 128 --chain 128
//
// The driver loads the library and calls InitializeInjection(). The trace contains driver API calls
// with their durations, and each graph as one event from its first to its last kernel. Times are
// microseconds since the first call.
#include <cuda.h>
#include <cupti.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Event {
  std::string name;
  uint64_t begin, end;  // nanoseconds
  bool on_gpu;
};

std::mutex mutex;
std::vector<Event> events;
CUpti_SubscriberHandle subscriber;

void add(std::string name, uint64_t begin, uint64_t end, bool on_gpu) {
  const std::lock_guard lock(mutex);
  events.push_back({std::move(name), begin, end, on_gpu});
}

void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  if (call.callbackSite == CUPTI_API_ENTER)
    *call.correlationData = now;
  else
    add(call.functionName, *call.correlationData, now, false);
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* records) {
  *size = size_t{1} << 20, *records = 0;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  if (*buffer == nullptr) *size = 0;
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
      const auto& graph = *reinterpret_cast<const CUpti_ActivityGraphTrace2*>(record);
      add("graph", graph.start, graph.end, true);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      add(kernel.name, kernel.start, kernel.end, true);
    }
  }
  std::free(buffer);
}

void write() {
  cuptiActivityFlushAll(1);
  const std::lock_guard lock(mutex);
  const char* path = std::getenv("VEERY_TRACE");
  std::FILE* file = std::fopen(path == nullptr ? "trace.json" : path, "w");
  if (file == nullptr) return std::perror("trace");
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.begin < b.begin; });
  const uint64_t first = events.empty() ? 0 : events.front().begin;
  std::fputs("[\n", file);
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    std::fprintf(
        file,
        "{\"name\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":\"%s\"}%s\n",
        event.name.c_str(), 1e-3 * static_cast<double>(event.begin - first),
        1e-3 * static_cast<double>(event.end - event.begin), event.on_gpu ? "GPU" : "driver",
        i + 1 < events.size() ? "," : "");
  }
  std::fputs("]\n", file);
  std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection() {
  if (cuptiSubscribe(&subscriber, on_call, nullptr) != CUPTI_SUCCESS) return 0;
  cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  std::atexit(write);
  return 1;
}
