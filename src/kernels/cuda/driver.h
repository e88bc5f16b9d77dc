// driver.h: the part of the CUDA driver API that veery uses (CUDA driver API reference), declared
// under own names. The driver is loaded at run time, on first use; no CUDA header is needed to
// build veery.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace veery::cuda {

using Result = int;  ///< CUresult
using Pointer = unsigned long long;
struct Context_;
struct Module_;
struct Function_;
struct Stream_;
struct Graph_;
struct GraphExec_;
struct GraphNode_;
struct Event_;
using Context = Context_*;
using Module = Module_*;
using Function = Function_*;
using Stream = Stream_*;
using Graph = Graph_*;
using GraphExec = GraphExec_*;
using GraphNode = GraphNode_*;
using Condition = unsigned long long;  ///< CUgraphConditionalHandle
using Event = Event_*;

struct LaunchAttribute {  ///< CUlaunchAttribute
  int id;
  char pad[4];
  alignas(8) union {
    char bytes[64];
    int allowed;
    unsigned blocks[3];
  } value;
};
struct LaunchConfig {  ///< CUlaunchConfig
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned count;
};

struct ConditionalNode {  ///< CUDA_CONDITIONAL_NODE_PARAMS
  Condition condition;
  int kind;
  unsigned size;
  Graph* bodies;  ///< set by the driver
  Context context;
};
struct NodeParameters {  ///< CUgraphNodeParams
  int kind;
  int reserved[3];
  union {
    long long words[29];
    ConditionalNode conditional;
  };
  long long also_reserved;
};
static_assert(sizeof(NodeParameters) == 256);

// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kMaxSharedOptin = 97;
inline constexpr Result kNotFound = 500;  ///< CUDA_ERROR_NOT_FOUND
inline constexpr int kMaxShared = 8;      ///< CUfunction_attribute
// CUlaunchAttributeID
inline constexpr int kClusterBlocks = 4, kProgrammaticOrder = 6;
inline constexpr unsigned kNonBlocking = 1;    ///< CUstream_flags
inline constexpr int kCaptureThreadLocal = 1;  ///< CUstreamCaptureMode
inline constexpr unsigned kExternal = 1;       ///< CUevent_record_flags: external event node
inline constexpr int kConditionalNode = 13;    ///< CUgraphNodeType
inline constexpr int kWhile = 1;               ///< CUgraphConditionalNodeType
inline constexpr unsigned kAssignDefault = 1;  ///< reset a condition at each graph launch

/// X(member of Driver, symbol in the library, parameters)
#define VEERY_CUDA_FUNCTIONS(X)                                                              \
  X(init, cuInit, (unsigned))                                                                \
  X(error_text, cuGetErrorString, (Result, const char**))                                    \
  X(device_count, cuDeviceGetCount, (int*))                                                  \
  X(device_get, cuDeviceGet, (int*, int))                                                    \
  X(device_name, cuDeviceGetName, (char*, int, int))                                         \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, int))                                \
  X(context_retain, cuDevicePrimaryCtxRetain, (Context*, int))                               \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (int))                                    \
  X(context_set, cuCtxSetCurrent, (Context))                                                 \
  X(memory_info, cuMemGetInfo_v2, (size_t*, size_t*))                                        \
  X(memory_allocate, cuMemAlloc_v2, (Pointer*, size_t))                                      \
  X(memory_free, cuMemFree_v2, (Pointer))                                                    \
  X(memory_set, cuMemsetD8_v2, (Pointer, unsigned char, size_t))                             \
  X(host_allocate, cuMemHostAlloc, (void**, size_t, unsigned))                               \
  X(host_free, cuMemFreeHost, (void*))                                                       \
  X(upload, cuMemcpyHtoD_v2, (Pointer, const void*, size_t))                                 \
  X(download, cuMemcpyDtoH_v2, (void*, Pointer, size_t))                                     \
  X(copy, cuMemcpyDtoD_v2, (Pointer, Pointer, size_t))                                       \
  X(upload_async, cuMemcpyHtoDAsync_v2, (Pointer, const void*, size_t, Stream))              \
  X(download_async, cuMemcpyDtoHAsync_v2, (void*, Pointer, size_t, Stream))                  \
  X(module_load, cuModuleLoadData, (Module*, const void*))                                   \
  X(module_unload, cuModuleUnload, (Module))                                                 \
  X(module_function, cuModuleGetFunction, (Function*, Module, const char*))                  \
  X(function_set, cuFuncSetAttribute, (Function, int, int))                                  \
  X(launch, cuLaunchKernelEx, (const LaunchConfig*, Function, void**, void**))               \
  X(stream_create, cuStreamCreate, (Stream*, unsigned))                                      \
  X(stream_destroy, cuStreamDestroy_v2, (Stream))                                            \
  X(stream_wait, cuStreamSynchronize, (Stream))                                              \
  X(context_wait, cuCtxSynchronize, ())                                                      \
  X(capture_begin, cuStreamBeginCapture_v2, (Stream, int))                                   \
  X(capture_end, cuStreamEndCapture, (Stream, Graph*))                                       \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long)) \
  X(graph_launch, cuGraphLaunch, (GraphExec, Stream))                                        \
  X(graph_destroy, cuGraphDestroy, (Graph))                                                  \
  X(exec_destroy, cuGraphExecDestroy, (GraphExec))                                           \
  X(event_create, cuEventCreate, (Event*, unsigned))                                         \
  X(event_destroy, cuEventDestroy_v2, (Event))                                               \
  X(event_record, cuEventRecordWithFlags, (Event, Stream, unsigned))                         \
  X(event_milliseconds, cuEventElapsedTime, (float*, Event, Event))

/// Functions for conditional graph nodes (loops), which drivers before 12.4 lack.
#define VEERY_CUDA_LOOP_FUNCTIONS(X)                                             \
  X(graph_create, cuGraphCreate, (Graph*, unsigned))                             \
  X(graph_nodes, cuGraphGetNodes, (Graph, GraphNode*, size_t*))                  \
  X(condition_create, cuGraphConditionalHandleCreate,                            \
    (Condition*, Graph, Context, unsigned, unsigned))                            \
  X(node_add, cuGraphAddNode_v2,                                                 \
    (GraphNode*, Graph, const GraphNode*, const void*, size_t, NodeParameters*)) \
  X(capture_into, cuStreamBeginCaptureToGraph,                                   \
    (Stream, Graph, const GraphNode*, const void*, size_t, int))

struct Driver {
#define VEERY_CUDA_MEMBER(name, symbol, parameters) Result(*name) parameters = nullptr;
  VEERY_CUDA_FUNCTIONS(VEERY_CUDA_MEMBER)
  VEERY_CUDA_LOOP_FUNCTIONS(VEERY_CUDA_MEMBER)
#undef VEERY_CUDA_MEMBER

  bool has_loops() const {
    return graph_create != nullptr && graph_nodes != nullptr && condition_create != nullptr &&
           node_add != nullptr && capture_into != nullptr;
  }
  /// Throws kIo with `what` and the driver's error text unless the result is 0.
  void check(Result result, const char* what) const;
};

/// Returns the driver, or nullptr with the reason in `why` if none can be used.
const Driver* find_driver(std::string& why);

}  // namespace veery::cuda
