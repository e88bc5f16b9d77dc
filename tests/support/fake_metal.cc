#include "support/fake_metal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "kernels/metal/machine.h"
#include "kernels/metal/metal.h"
#include "support/metal_kernels.h"

namespace veery::metal {
namespace {

struct FakePipeline {
  const Shader* shader;
};
struct Encoded {
  std::vector<Command> commands;
  Buffer arguments;
};

constexpr size_t kPage = 16384;

// Maps each buffer twice, for the host and for the emulated GPU. The GPU's mapping is only
// accessible while commands run, so that host accesses to GPU addresses crash.
class FakeDriver : public Driver {
 public:
  explicit FakeDriver(FakeGpu& gpu) : gpu_(gpu) {}

  Limits limits() const override { return gpu_.limits; }
  size_t used() const override { return gpu_.used; }

  std::optional<Buffer> allocate(size_t size) override {
    const size_t bytes = (size + kPage - 1) / kPage * kPage;
    if (gpu_.used + bytes > gpu_.limits.memory) return std::nullopt;
    const int file = ::memfd_create("veery-metal", MFD_CLOEXEC);
    VEERY_CHECK(file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0);
    const auto map = [&](int protection) {
      void* at = ::mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
      VEERY_CHECK(at != MAP_FAILED);
      return at;
    };
    Buffer buffer;
    buffer.host = static_cast<std::byte*>(map(PROT_READ | PROT_WRITE));
    buffer.address = reinterpret_cast<uint64_t>(map(PROT_NONE));
    buffer.object = buffer.host;
    buffer.size = size;
    ::close(file);
    gpu_.used += bytes;
    ++gpu_.buffers;
    buffers_.emplace(buffer.address, bytes);
    return buffer;
  }
  void release(const Buffer& buffer) noexcept override {
    const auto at = buffers_.find(buffer.address);
    if (at == buffers_.end()) return fault("release of an unknown buffer");
    ::munmap(buffer.host, at->second);
    ::munmap(reinterpret_cast<void*>(buffer.address), at->second);
    gpu_.used -= at->second;
    --gpu_.buffers;
    buffers_.erase(at);
  }

  void load(std::string_view source) override {
    if (const size_t at = source.find("#include \""); at != std::string_view::npos)
      throw Error(ErrorKind::kIo, "metal: compiling the shaders: no header is found for {}",
                  source.substr(at, 60));
    loaded_ = source.find("[[kernel, ") != std::string_view::npos;
  }
  Pipeline pipeline(const std::string& function) override {
    const auto at = std::ranges::find(shaders(), std::string_view(function), &Shader::name);
    if (!loaded_ || at == shaders().end())
      throw Error(ErrorKind::kIo, "metal: finding {}: there is no such function", function);
    gpu_.functions.push_back(function);
    FakePipeline& made = pipelines_[function];
    made.shader = &*at;
    return {&made, gpu_.width, at->threads};
  }

  void* encode(std::span<const Command> commands, const Buffer& arguments) override {
    auto* encoded = new Encoded{{commands.begin(), commands.end()}, arguments};
    gpu_.commands.clear();
    for (size_t i = 0; i < commands.size(); ++i) check(commands[i], arguments, i == 0);
    ++gpu_.encoded;
    return encoded;
  }
  void drop(void* encoded) noexcept override {
    delete static_cast<Encoded*>(encoded);
    --gpu_.encoded;
  }
  double run(void* encoded, size_t first, size_t last) override {
    if (gpu_.runs++ == gpu_.fail_run)
      throw Error(ErrorKind::kIo, "metal: a run: the GPU was reset");
    const auto& of = *static_cast<Encoded*>(encoded);
    if (first >= last || last > of.commands.size()) fault("run of commands out of range");
    protect(PROT_READ | PROT_WRITE);
    double seconds = gpu_.command_seconds;
    for (const Command& command : std::span(of.commands).subspan(first, last - first)) {
      const Shader& shader = *static_cast<FakePipeline*>(command.pipeline.object)->shader;
      gpu::emulated::run(shader.function,
                         reinterpret_cast<const void*>(of.arguments.address + command.offset),
                         command.size);
      seconds += gpu_.command_seconds;
    }
    protect(PROT_NONE);
    return seconds;
  }

 private:
  void fault(const std::string& what) noexcept { gpu_.faults += what + "\n"; }
  void protect(int protection) const {
    for (const auto& [address, bytes] : buffers_)
      VEERY_CHECK(::mprotect(reinterpret_cast<void*>(address), bytes, protection) == 0);
  }
  void check(const Command& command, const Buffer& arguments, bool first) {
    const Shader& shader = *static_cast<FakePipeline*>(command.pipeline.object)->shader;
    const gpu::LaunchSize& size = command.size;
    gpu_.commands.emplace_back(shader.name);
    const auto expect = [&](bool right, std::string_view what) {
      if (!right) fault(fmt::format("{}: {}", shader.name, what));
    };
    expect(command.bytes == shader.bytes, "arguments of another size");
    expect(command.offset % 256 == 0 && command.offset + command.bytes <= arguments.size,
           "arguments lie elsewhere");
    expect(size.threads > 0 && size.threads % gpu_.width == 0 && size.threads <= shader.threads,
           "threads of a threadgroup");
    expect(size.blocks_x > 0 && size.blocks_y > 0 && size.blocks_z > 0, "an empty grid");
    expect(size.shared > 0 && size.shared % 16 == 0 && size.shared <= gpu_.limits.block_memory,
           "memory of a threadgroup");
    expect(command.waits != first, "a barrier");
  }

  FakeGpu& gpu_;
  bool loaded_ = false;
  std::map<uint64_t, size_t> buffers_;
  std::map<std::string, FakePipeline> pipelines_;
};

}  // namespace

std::unique_ptr<Driver> make_fake(FakeGpu& gpu) { return std::make_unique<FakeDriver>(gpu); }
std::unique_ptr<Backend> make_fake_backend(FakeGpu& gpu) {
  return gpu::make_backend(make_machine(make_fake(gpu), kShaders, 1));
}

}  // namespace veery::metal
