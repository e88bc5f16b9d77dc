#include "support/cuda/fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "base/clock.h"
#include "support/gpu_machine.h"

namespace veery::cuda {

// The objects that the driver's handles point to.
struct Function_ {
  gpu::KernelId kernel;
};
struct GraphNode_ {
  std::function<void()> run;
  std::shared_ptr<Graph_> body;  // of a loop
};
struct Graph_ {
  std::vector<std::shared_ptr<GraphNode_>> nodes;
  std::map<uint32_t*, uint32_t> conditions;  // with their values at launch
  std::vector<std::shared_ptr<uint32_t>> kept;

  void add(std::function<void()> run) {
    nodes.push_back(std::make_shared<GraphNode_>(GraphNode_{std::move(run), nullptr}));
  }
};
struct GraphExec_ {
  Graph_ graph;
};
struct Stream_ {};
struct Event_ {
  double milliseconds = -1;  // time of the last record; -1 before the first
};

namespace {

constexpr Result kOk = 0, kOutOfMemory = 2, kInvalid = 1;

FakeState state;
std::map<Pointer, size_t> blocks;
Graph_* recorded = nullptr;  // the graph being recorded while a stream is captured

// Returns whether [at, at + size) is within one allocated block.
bool is_ours(Pointer at, size_t size) {
  auto next = blocks.upper_bound(at);
  if (next == blocks.begin()) return false;
  --next;
  return at + size <= next->first + next->second;
}
void* host(Pointer at) { return reinterpret_cast<void*>(at); }

Result allocate(Pointer* at, size_t size) {
  if (size == 0) return kInvalid;
  if (state.used + size > state.memory) return kOutOfMemory;
  void* memory = std::aligned_alloc(256, (size + 255) / 256 * 256);
  std::memset(memory, 0xab, size);
  *at = reinterpret_cast<Pointer>(memory);
  blocks[*at] = size;
  state.used += size;
  return kOk;
}
Result release(Pointer at) {
  const auto block = blocks.find(at);
  if (block == blocks.end()) return kInvalid;
  state.used -= block->second;
  blocks.erase(block);
  std::free(host(at));
  return kOk;
}
Result copy(void* to, const void* from, size_t size, Pointer device) {
  if (!is_ours(device, size)) return kInvalid;
  std::memmove(to, from, size);
  return kOk;
}

Result launch(const LaunchConfig* config, Function function, void** arguments, void**) {
  if (config->block_x == 0 || config->block_x > 1024 || config->block_x % 32 != 0 ||
      config->grid_x == 0 || config->grid_y == 0 || config->grid_y > 65535 || config->grid_z == 0 ||
      config->grid_z > 65535 || config->shared > (227U << 10))
    return kInvalid;
  for (unsigned i = 0; i < config->count; ++i) {
    const LaunchAttribute& how = config->attributes[i];
    if (how.id == kProgrammaticOrder) ++state.early;
    // Clusters must be complete, and GPUs before compute capability 9.0 do not support them.
    if (how.id == kClusterBlocks && (state.major < 9 || config->grid_y % how.value.blocks[1] != 0))
      return kInvalid;
  }
  const gpu::LaunchSize size{static_cast<int>(config->grid_x), static_cast<int>(config->grid_y),
                             static_cast<int>(config->grid_z), static_cast<int>(config->block_x),
                             config->shared};
  if (recorded == nullptr) {
    gpu::emulate(function->kernel, size, arguments[0]);
    return kOk;
  }
  std::array<std::byte, gpu::Launch::kMaxParamBytes> copied;
  std::memcpy(copied.data(), arguments[0], copied.size());
  recorded->add([kernel = function->kernel, copied, size] {
    ++state.launches;
    alignas(16) std::array<std::byte, gpu::Launch::kMaxParamBytes> own = copied;
    gpu::emulate(kernel, size, own.data());
  });
  return kOk;
}

Result find_function(Function* function, Module, const char* symbol) {
  static std::map<std::string, std::unique_ptr<Function_>> all;
  for (int i = 0; i < static_cast<int>(gpu::KernelId::kCount); ++i) {
    const auto kernel = static_cast<gpu::KernelId>(i);
    const gpu::KernelInfo& info = gpu::kernel_info(kernel);
    if (std::string("veery_") + std::string(info.name) != symbol) continue;
    if (info.set == gpu::KernelSet::kMetal) break;
    if (info.set == gpu::KernelSet::kWgmma && state.major != 9) break;
    auto& own = all[symbol];
    if (!own) own = std::make_unique<Function_>(Function_{kernel});
    *function = own.get();
    return kOk;
  }
  return 500;  // CUDA_ERROR_NOT_FOUND
}

Result upload_async(Pointer to, const void* from, size_t size, Stream) {
  if (!is_ours(to, size)) return kInvalid;
  in_fake_stream([=] { std::memcpy(host(to), from, size); });
  return kOk;
}
Result run_graph(GraphExec graph, Stream) {
  if (state.runs++ == state.fail_run) return 719;  // CUDA_ERROR_LAUNCH_FAILED
  for (const auto& [condition, value] : graph->graph.conditions) *condition = value;
  for (const auto& node : graph->graph.nodes) node->run();
  return kOk;
}

Result download_async(void* to, Pointer from, size_t size, Stream) {
  if (recorded == nullptr) return ++state.copies, copy(to, host(from), size, from);
  if (!is_ours(from, size)) return kInvalid;
  recorded->add([=] { std::memcpy(to, host(from), size); });
  return kOk;
}

// Loops.

Result make_condition(Condition* condition, Graph graph, Context, unsigned value, unsigned flags) {
  if (flags != kAssignDefault) return kInvalid;
  graph->kept.push_back(std::make_shared<uint32_t>(0));
  graph->conditions[graph->kept.back().get()] = value;
  return *condition = reinterpret_cast<Condition>(graph->kept.back().get()), kOk;
}
Result get_nodes(Graph graph, GraphNode* nodes, size_t* count) {
  if (*count < graph->nodes.size()) return kInvalid;
  for (size_t i = 0; i < graph->nodes.size(); ++i) nodes[i] = graph->nodes[i].get();
  return *count = graph->nodes.size(), kOk;
}
// Nodes run in the order in which they are added, so each must depend on the previous one.
bool is_last(Graph graph, const GraphNode* dependencies, size_t count) {
  return count == 0
             ? graph->nodes.empty()
             : count == 1 && !graph->nodes.empty() && graph->nodes.back().get() == *dependencies;
}
Result add_node(GraphNode* node, Graph graph, const GraphNode* dependencies, const void* edges,
                size_t count, NodeParameters* parameters) {
  const ConditionalNode& c = parameters->conditional;
  auto* condition = reinterpret_cast<uint32_t*>(c.condition);
  if (parameters->kind != kConditionalNode || c.kind != kWhile || c.size != 1 || edges != nullptr ||
      !is_last(graph, dependencies, count) || !graph->conditions.contains(condition))
    return kInvalid;
  auto made = std::make_shared<GraphNode_>();
  made->body = std::make_shared<Graph_>();
  made->run = [condition, body = made->body.get()] {
    while (*condition != 0)
      for (const auto& each : body->nodes) each->run();
  };
  static Graph bodies[1];
  bodies[0] = made->body.get();
  parameters->conditional.bodies = bodies;
  *node = made.get();
  graph->nodes.push_back(std::move(made));
  return kOk;
}
Result capture_into(Stream, Graph graph, const GraphNode* dependencies, const void* edges,
                    size_t count, int) {
  if (recorded != nullptr || edges != nullptr || !is_last(graph, dependencies, count))
    return kInvalid;
  return recorded = graph, kOk;
}
void add_loops(Driver& d) {
  d.graph_create = [](Graph* graph, unsigned) { return *graph = new Graph_, kOk; };
  d.graph_nodes = get_nodes;
  d.condition_create = make_condition;
  d.node_add = add_node;
  d.capture_into = capture_into;
}

Result record_event(Event event, Stream, unsigned flags) {
  if (recorded == nullptr || flags != kExternal) return kInvalid;
  recorded->add(
      [event] { event->milliseconds = state.ticks ? state.launches : 1e3 * seconds_now(); });
  return kOk;
}
Result time_between(float* milliseconds, Event first, Event second) {
  if (first->milliseconds < 0 || second->milliseconds < first->milliseconds) return kInvalid;
  return *milliseconds = static_cast<float>(second->milliseconds - first->milliseconds), kOk;
}

void add_events(Driver& d) {
  d.event_create = [](Event* event, unsigned) { return *event = new Event_, ++state.events, kOk; };
  d.event_destroy = [](Event event) { return delete event, --state.events, kOk; };
  d.event_record = record_event;
  d.event_milliseconds = time_between;
}

void add_device(Driver& d) {
  d.init = [](unsigned) { return kOk; };
  d.error_text = [](Result result, const char** text) {
    *text = result == kOutOfMemory ? "out of memory" : "a fault";
    return kOk;
  };
  d.device_count = [](int* count) { return *count = 1, kOk; };
  d.device_get = [](int* device, int index) { return *device = index, kOk; };
  d.device_name = [](char* name, int size, int) {
    return std::strncpy(name, "fake", static_cast<size_t>(size)), kOk;
  };
  d.device_attribute = [](int* value, int which, int) {
    *value = which == kMajor ? state.major : which == kMaxSharedOptin ? 227 << 10 : 2;
    return kOk;
  };
  d.context_retain = [](Context*, int) { return kOk; };
  d.context_release = [](int) { return kOk; };
  d.context_set = [](Context) { return kOk; };
  d.context_wait = [] { return kOk; };
  d.memory_info = [](size_t* left, size_t* all) {
    return *all = state.memory, *left = state.memory - state.used, kOk;
  };
}

void add_memory(Driver& d) {
  d.memory_allocate = allocate;
  d.memory_free = release;
  d.memory_set = [](Pointer at, unsigned char value, size_t size) {
    if (!is_ours(at, size)) return kInvalid;
    return std::memset(host(at), value, size), kOk;
  };
  d.host_allocate = [](void** at, size_t size, unsigned) { return *at = std::malloc(size), kOk; };
  d.host_free = [](void* at) { return std::free(at), kOk; };
  d.upload = [](Pointer to, const void* from, size_t size) {
    return copy(host(to), from, size, to);
  };
  d.download = [](void* to, Pointer from, size_t size) { return copy(to, host(from), size, from); };
  d.copy = [](Pointer to, Pointer from, size_t size) {
    return is_ours(from, size) ? copy(host(to), host(from), size, to) : kInvalid;
  };
  d.upload_async = upload_async;
  d.download_async = download_async;
}

Driver make_driver() {
  Driver d;
  add_device(d);
  add_memory(d);
  add_events(d);
  d.module_load = [](Module*, const void*) { return kOk; };
  d.module_unload = [](Module) { return kOk; };
  d.module_function = find_function;
  d.function_set = [](Function, int, int) { return kOk; };
  d.launch = launch;
  d.stream_create = [](Stream* stream, unsigned) { return *stream = new Stream_, kOk; };
  d.stream_destroy = [](Stream stream) { return delete stream, kOk; };
  d.stream_wait = [](Stream) { return kOk; };
  d.capture_begin = [](Stream, int) { return recorded = new Graph_, kOk; };
  d.capture_end = [](Stream, Graph* graph) {
    return *graph = std::exchange(recorded, nullptr), kOk;
  };
  d.graph_instantiate = [](GraphExec* exec, Graph graph, unsigned long long) {
    return *exec = new GraphExec_{*graph}, ++state.graphs, kOk;
  };
  d.graph_launch = run_graph;
  d.graph_destroy = [](Graph graph) { return delete graph, kOk; };
  d.exec_destroy = [](GraphExec exec) { return delete exec, --state.graphs, kOk; };
  return d;
}

}  // namespace

FakeState& fake_state() { return state; }
bool is_on_fake(const void* at, size_t size) {
  return is_ours(reinterpret_cast<Pointer>(at), size);
}
bool in_fake_stream(const std::function<void()>& node) {
  if (recorded == nullptr) return node(), false;
  recorded->add(node);
  return true;
}
const Driver& fake_driver(bool loops) {
  static const Driver older = make_driver();
  static const Driver driver = [] {
    Driver with = older;
    add_loops(with);
    return with;
  }();
  state = {};
  return loops ? driver : older;
}

}  // namespace veery::cuda
