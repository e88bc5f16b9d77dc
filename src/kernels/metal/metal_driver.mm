// Implements Driver with Apple's Metal framework. Objects are reference counted (ARC); objects that
// Driver returns are retained until they are released through it.
#import <Foundation/Foundation.h>
#import <Metal/Metal.h>

#include <mutex>
#include <utility>

#include "base/error.h"
#include "kernels/metal/driver.h"

// The shader library that was compiled at build time.
#if defined(VEERY_METAL_LIBRARY)
asm(".section __TEXT,__const\n"
    ".balign 64\n"
    "_veery_metal_library:\n"
    ".incbin \"" VEERY_METAL_LIBRARY
    "\"\n"
    "_veery_metal_library_end:\n"
    ".byte 0\n"
    ".text\n");
extern "C" const char veery_metal_library[];      // NOLINT
extern "C" const char veery_metal_library_end[];  // NOLINT
#endif

namespace veery::metal {
namespace {

std::string text_of(NSError* error) {
  if (error == nil || error.localizedDescription == nil) return "unknown error";
  return error.localizedDescription.UTF8String;
}
[[noreturn]] void fail(std::string_view what, NSError* error) {
  throw Error(ErrorKind::kIo, "metal: {}: {}", what, text_of(error));
}
NSString* string_of(std::string_view text) {
  return [[NSString alloc] initWithBytes:text.data()
                                  length:text.size()
                                encoding:NSUTF8StringEncoding];
}
void* held(id object) { return (__bridge_retained void*)object; }
void let_go(void* object) { CFBridgingRelease(object); }

struct Encoded {
  id<MTLIndirectCommandBuffer> commands;
};

class AppleDriver : public Driver {
 public:
  explicit AppleDriver(id<MTLDevice> device) : device_(device) {
    queue_ = [device_ newCommandQueue];
    if (queue_ == nil) fail("creating a command queue", nil);
    NSError* error = nil;
    residents_ = [device_ newResidencySetWithDescriptor:[[MTLResidencySetDescriptor alloc] init]
                                                  error:&error];
    if (residents_ == nil) fail("creating a residency set", error);
    [queue_ addResidencySet:residents_];
  }
  AppleDriver(const AppleDriver&) = delete;
  AppleDriver& operator=(const AppleDriver&) = delete;
  ~AppleDriver() override { [queue_ removeResidencySet:residents_]; }

  Limits limits() const override {
    Limits limits;
    limits.name = device_.name.UTF8String;
    limits.memory = device_.recommendedMaxWorkingSetSize;
    limits.buffer = device_.maxBufferLength;
    limits.block_memory = device_.maxThreadgroupMemoryLength;
    limits.block_threads = static_cast<int>(device_.maxThreadsPerThreadgroup.width);
    return limits;
  }
  size_t used() const override { return device_.currentAllocatedSize; }

  std::optional<Buffer> allocate(size_t size) override {
    // Metal zeroes new buffers.
    id<MTLBuffer> made = [device_ newBufferWithLength:size options:MTLResourceStorageModeShared];
    if (made == nil) return std::nullopt;
    change([&] { [residents_ addAllocation:made]; });
    Buffer buffer;
    buffer.host = static_cast<std::byte*>(made.contents);
    buffer.address = made.gpuAddress;
    buffer.size = size;
    buffer.object = held(made);
    return buffer;
  }
  void release(const Buffer& buffer) noexcept override {
    change([&] { [residents_ removeAllocation:(__bridge id<MTLBuffer>)buffer.object]; });
    let_go(buffer.object);
  }

  void load(std::string_view source) override {
    NSError* error = nil;
#if defined(VEERY_METAL_LIBRARY)
    static_cast<void>(source);
    const auto size = static_cast<size_t>(veery_metal_library_end - veery_metal_library);
    dispatch_data_t made =
        dispatch_data_create(veery_metal_library, size, nullptr, DISPATCH_DATA_DESTRUCTOR_DEFAULT);
    library_ = [device_ newLibraryWithData:made error:&error];
#else
    MTLCompileOptions* options = [[MTLCompileOptions alloc] init];
    options.languageVersion = MTLLanguageVersion4_0;
    options.mathMode = MTLMathModeSafe;
    options.mathFloatingPointFunctions = MTLMathFloatingPointFunctionsPrecise;
    library_ = [device_ newLibraryWithSource:string_of(source) options:options error:&error];
#endif
    if (library_ == nil) fail("compiling the shaders", error);
  }

  Pipeline pipeline(const std::string& function) override {
    id<MTLFunction> found = [library_ newFunctionWithName:string_of(function)];
    if (found == nil)
      throw Error(ErrorKind::kIo, "metal: the shaders have no function {}", function);
    MTLComputePipelineDescriptor* how = [[MTLComputePipelineDescriptor alloc] init];
    how.computeFunction = found;
    how.supportIndirectCommandBuffers = YES;
    NSError* error = nil;
    id<MTLComputePipelineState> made =
        [device_ newComputePipelineStateWithDescriptor:how
                                               options:MTLPipelineOptionNone
                                            reflection:nil
                                                 error:&error];
    if (made == nil) fail("compiling " + function, error);
    pipelines_ = [pipelines_ arrayByAddingObject:made];
    return {(__bridge void*)made, static_cast<int>(made.threadExecutionWidth),
            static_cast<int>(made.maxTotalThreadsPerThreadgroup)};
  }

  void* encode(std::span<const Command> commands, const Buffer& arguments) override {
    MTLIndirectCommandBufferDescriptor* how = [[MTLIndirectCommandBufferDescriptor alloc] init];
    how.commandTypes = MTLIndirectCommandTypeConcurrentDispatch;
    how.inheritBuffers = NO;
    how.inheritPipelineState = NO;
    how.maxKernelBufferBindCount = 1;
    how.maxKernelThreadgroupMemoryBindCount = 1;
    const NSUInteger count = commands.size();
    id<MTLIndirectCommandBuffer> made =
        [device_ newIndirectCommandBufferWithDescriptor:how
                                        maxCommandCount:count
                                                options:MTLResourceStorageModeShared];
    if (made == nil)
      fail(fmt::format("creating an indirect command buffer of {} commands", count), nil);
    id<MTLBuffer> bound = (__bridge id<MTLBuffer>)arguments.object;
    for (NSUInteger i = 0; i < count; ++i)
      put(commands[i], bound, [made indirectComputeCommandAtIndex:i]);
    change([&] { [residents_ addAllocation:made]; });
    return new Encoded{made};
  }
  void drop(void* encoded) noexcept override {
    auto* of = static_cast<Encoded*>(encoded);
    if (of == nullptr) return;
    change([&] { [residents_ removeAllocation:of->commands]; });
    delete of;
  }

  double run(void* encoded, size_t first, size_t last) override {
    const Encoded& of = *static_cast<Encoded*>(encoded);
    @autoreleasepool {
      make_resident();
      id<MTLCommandBuffer> commands = [queue_ commandBuffer];
      id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
      if (encoder == nil) fail("starting a run", nil);
      [encoder executeCommandsInBuffer:of.commands withRange:NSMakeRange(first, last - first)];
      [encoder endEncoding];
      [commands commit];
      [commands waitUntilCompleted];
      if (commands.status == MTLCommandBufferStatusError) fail("executing a run", commands.error);
      return commands.GPUEndTime - commands.GPUStartTime;
    }
  }

 private:
  // Changes the residency set; the change takes effect before the next run.
  template <typename Change>
  void change(const Change& make) noexcept {
    const std::lock_guard lock(mutex_);
    make();
    changed_ = true;
  }
  void make_resident() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(changed_, false)) return;
    [residents_ commit];
    [residents_ requestResidency];
  }
  static void put(const Command& command, id<MTLBuffer> arguments,
                  id<MTLIndirectComputeCommand> to) {
    const auto number = [](int n) { return static_cast<NSUInteger>(n); };
    const gpu::LaunchSize& size = command.size;
    [to setComputePipelineState:(__bridge id<MTLComputePipelineState>)command.pipeline.object];
    [to setKernelBuffer:arguments offset:command.offset atIndex:0];
    [to setThreadgroupMemoryLength:size.shared atIndex:0];
    if (command.waits) [to setBarrier];
    [to concurrentDispatchThreadgroups:MTLSizeMake(number(size.blocks_x), number(size.blocks_y),
                                                   number(size.blocks_z))
                 threadsPerThreadgroup:MTLSizeMake(number(size.threads), 1, 1)];
  }

  id<MTLDevice> device_;
  id<MTLCommandQueue> queue_;
  id<MTLResidencySet> residents_;
  id<MTLLibrary> library_;
  NSArray<id<MTLComputePipelineState>>* pipelines_ = @[];
  std::mutex mutex_;  // protects residents_ and changed_
  bool changed_ = false;
};

}  // namespace

std::unique_ptr<Driver> find_driver(std::string& why) {
  if (@available(macOS 26.0, *)) {
    id<MTLDevice> device = MTLCreateSystemDefaultDevice();
    if (device == nil) {
      why = "found no GPU that supports Metal";
    } else if (![device supportsFamily:MTLGPUFamilyApple7]) {
      why = fmt::format("{} is not an Apple GPU", device.name.UTF8String);
    } else {
      return std::make_unique<AppleDriver>(device);
    }
  } else {
    why = "Metal requires macOS 26 or later";
  }
  return nullptr;
}

}  // namespace veery::metal
