#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/dialect/emulator.h"
#include "support/gpu_machine.h"
#include "support/switch_stack.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace veery::gpu::emulated {

constinit thread_local ThreadContext* current = nullptr;

namespace {

constexpr size_t kStack = size_t{128} << 10;
[[maybe_unused]] constexpr size_t kFirstFrames = size_t{4} << 10;  // of enter() and finish()
constexpr int kWarpThreads = 32;

thread_local uint32_t held_warps = 0;  // HeldWarps

// A barrier: arrivals of the current phase, and completed phases.
struct Barrier {
  int arrived = 0;
  uint64_t passed = 0;
};

struct Copy {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes = 16;
};
// The asynchronous copies of a thread that are still in flight; `ends` are the ends of the commit
// groups.
struct Copies {
  std::vector<Copy> pieces;
  std::vector<size_t> ends;
};

struct Fibre {
  uint8_t* stack = nullptr;
  void* left_at = nullptr;           // where it resumes
  const Barrier* barrier = nullptr;  // waits until this has completed more than `passed` phases
  uint64_t passed = 0;
  bool done = false;
  ThreadContext context;
  Copies copies;
};

// Stacks are reused: clearing new ones takes longer than running on them.
uint8_t* stack_of(size_t fibre) {
  thread_local std::vector<std::unique_ptr<uint8_t[]>> stacks;
  while (stacks.size() <= fibre)
    stacks.push_back(std::make_unique_for_overwrite<uint8_t[]>(kStack));
  return stacks[fibre].get();
}

// State of an mbarrier: the copies issued in the current phase, and the arrivals. The mbarrier also
// counts completed phases itself, which reveals writes to its memory.
struct Asked {
  std::vector<Copy> pieces;
  uint64_t passed = 0;
  int lanes = 0;                // threads that have issued copies or arrived
  int arrivals = kWarpThreads;  // expected arrivals per phase
};
constexpr int kGarbage = 0xa5;

// Runs the thread blocks of a launch one after another, on the same fibres.
class Blocks {
 public:
  Blocks(void (*kernel)(const void*), const void* arguments, const LaunchSize& size)
      : kernel_(kernel),
        arguments_(arguments),
        size_(size),
        fibres_(static_cast<size_t>(size.threads)),
        warps_(fibres_.size() / kWarpThreads + 1),
        shared_(size.shared / sizeof(Aligned) + 1),
        exchanged_(fibres_.size()) {
    for (size_t i = 0; i < fibres_.size(); ++i) fibres_[i].stack = stack_of(i);
  }

  void run(int x, int y, int z) {
    left_ = fibres();
    stuck_ = unmade_ = reused_ = false;
    turns_ = 0;
    asked_.clear();
    for (int i = 0; i < fibres(); ++i)
      start(i, {.thread = i,
                .threads = size_.threads,
                .x = x,
                .y = y,
                .z = z,
                .blocks_x = size_.blocks_x});
    switch_to(&main_, 0);
    if (stuck_) throw Error(ErrorKind::kBug, "emulator: threads of a block wait for one another");
    for (const auto& [mbarrier, asked] : asked_) unmade_ |= !asked.pieces.empty();
    if (unmade_) throw Error(ErrorKind::kBug, "emulator: a thread ends before its copies are made");
    for (const auto& [mbarrier, asked] : asked_) reused_ |= *mbarrier != asked.passed;
    if (reused_)
      throw Error(ErrorKind::kBug,
                  "emulator: the memory of an mbarrier is used for something else");
  }

  // Waits until `threads` threads have arrived on `barrier`.
  void wait(Barrier& barrier, int threads) {
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.passed;
      turns_ = 0;
      return;
    }
    Fibre& own = fibre(current_);
    own.barrier = &barrier;
    own.passed = barrier.passed;
    yield_thread();
    own.barrier = nullptr;
  }
  void wait_for_block() { wait(block_, fibres()); }
  void wait_for_warp() {
    const int warp = current_ / kWarpThreads;
    wait(warps_[static_cast<size_t>(warp)], std::min(kWarpThreads, fibres() - warp * kWarpThreads));
  }
  void progress() { turns_ = 0; }
  void copy_async_16(uint8_t* to, const uint8_t* from) {
    std::memset(to, kGarbage, 16);
    own_copies().pieces.push_back({to, from});
  }
  void commit_copies() { own_copies().ends.push_back(own_copies().pieces.size()); }
  void wait_for_copies(int left) {
    auto& [pieces, ends] = own_copies();
    if (ends.size() <= static_cast<size_t>(left)) return;
    const auto groups = static_cast<ptrdiff_t>(ends.size()) - left;
    const size_t made = ends[static_cast<size_t>(groups) - 1];
    for (size_t i = 0; i < made; ++i) std::memcpy(pieces[i].to, pieces[i].from, pieces[i].bytes);
    pieces.erase(pieces.begin(), pieces.begin() + static_cast<ptrdiff_t>(made));
    ends.erase(ends.begin(), ends.begin() + groups);
    for (size_t& end : ends) end -= made;
  }
  void init_mbarrier(Mbarrier* mbarrier, int arrivals) {
    *mbarrier = 0;
    reused_ |= !asked_.insert({mbarrier, {{}, 0, 0, arrivals}}).second;
  }
  void copy_bulk(Mbarrier* mbarrier, const Copy& piece) {
    Asked& asked = asked_.at(mbarrier);
    VEERY_CHECK(asked.lanes < asked.arrivals &&
                (piece.bytes | reinterpret_cast<uintptr_t>(piece.to) |
                 reinterpret_cast<uintptr_t>(piece.from)) %
                        16 ==
                    0);
    if (piece.bytes > 0) std::memset(piece.to, kGarbage, piece.bytes);
    asked.pieces.push_back(piece);
    ++asked.lanes;
    turns_ = 0;
  }
  void arrive(Mbarrier* mbarrier) {
    Asked& asked = asked_.at(mbarrier);
    if (asked.lanes == asked.arrivals) pass(mbarrier);  // nobody waited for the previous phase
    ++asked.lanes;
    turns_ = 0;
  }
  void wait_for_phase(Mbarrier* mbarrier, int turn) {
    const auto passed = [&] {
      return asked_.at(mbarrier).passed % 2 != static_cast<uint64_t>(turn % 2);
    };
    while (!passed() && !stuck_) {
      Asked& asked = asked_.at(mbarrier);
      if (asked.lanes < asked.arrivals) {
        yield_thread();
        continue;
      }
      pass(mbarrier);
    }
    // A wait for a phase that has not started returns at once, because the phase two before it has
    // the same parity. This check detects it.
    VEERY_CHECK(stuck_ || asked_.at(mbarrier).passed > static_cast<uint64_t>(turn));
  }

 private:
  struct alignas(64) Aligned {
    uint8_t bytes[64];
  };
  struct Exchanged {
    uint8_t bytes[32];
  };

  // Completes the phase: all threads have arrived, so the copies are performed.
  void pass(Mbarrier* mbarrier) {
    Asked& asked = asked_.at(mbarrier);
    for (const Copy& piece : asked.pieces)
      if (piece.bytes > 0) std::memcpy(piece.to, piece.from, piece.bytes);
    reused_ |= *mbarrier != asked.passed;
    *mbarrier = asked.passed + 1;
    asked = {{}, asked.passed + 1, 0, asked.arrivals};
  }
  int fibres() const { return static_cast<int>(fibres_.size()); }
  Copies& own_copies() { return fibre(current_).copies; }
  void start(int number, const ThreadContext& context) {
    Fibre& own = fibre(number);
#if defined(__SANITIZE_ADDRESS__)
    // The first frames of a stack never return, so their shadow marks would remain.
    __asan_unpoison_memory_region(own.stack + kStack - kFirstFrames, kFirstFrames);
#endif
    own.left_at = begin_stack(own.stack + kStack, enter);
    own.barrier = nullptr;
    own.done = false;
    own.context = context;
    own.context.shared = shared_.front().bytes;
    own.context.exchanged = exchanged_.front().bytes;
    own.copies.pieces.clear();
    own.copies.ends.clear();
  }
  static void enter();

  bool may_run(const Fibre& of) const {
    return !of.done && (stuck_ || of.barrier == nullptr || of.barrier->passed != of.passed);
  }
  static bool is_held(int thread) { return (held_warps >> thread / kWarpThreads & 1) != 0; }
  // Returns the next thread after the current one that can run; the current one is considered last.
  // Held threads may run once the others have polled their mbarriers in vain.
  int next() {
    for (;;) {
      int to = current_, held = -1;
      for (int i = 0; i < fibres(); ++i) {
        if (++to == fibres()) to = 0;
        if (!may_run(fibre(to))) continue;
        if (!is_held(to) || turns_ > fibres()) return to;
        if (held < 0) held = to;
      }
      if (held >= 0) return held;
      stuck_ = true;
    }
  }
  void yield_thread() {
    if (++turns_ > 4 * fibres()) stuck_ = true;
    const int to = next();
    if (to != current_) switch_to(&fibre(current_).left_at, to);
  }
  void finish() {
    turns_ = 0;
    Fibre& own = fibre(current_);
    unmade_ = unmade_ || !own.copies.pieces.empty();
    own.done = true;
    switch_to(nullptr, --left_ > 0 ? next() : -1);
  }

  // Switches to a thread, or to run() (-1). The caller resumes from `left_at`; nullptr means it has
  // finished.
  void switch_to(void** left_at, int to) {
    void* unused = nullptr;
    current_ = to;
    current = to < 0 ? nullptr : &fibre(to).context;
    void* goes_on = to < 0 ? main_ : fibre(to).left_at;
#if defined(__SANITIZE_ADDRESS__)  // ASan must know about each stack switch
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(left_at != nullptr ? &fake : nullptr,
                                   to < 0 ? main_stack_ : fibre(to).stack,
                                   to < 0 ? main_size_ : kStack);
    veery_switch_stack(left_at != nullptr ? left_at : &unused, goes_on);
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
#else
    veery_switch_stack(left_at != nullptr ? left_at : &unused, goes_on);
#endif
  }
  Fibre& fibre(int thread) { return fibres_[static_cast<size_t>(thread)]; }

  void (*kernel_)(const void*);
  const void* arguments_;
  LaunchSize size_;
  std::vector<Fibre> fibres_;
  std::vector<Barrier> warps_;
  Barrier block_;
  std::vector<Aligned> shared_;
  std::vector<Exchanged> exchanged_;
  std::map<Mbarrier*, Asked> asked_;
  void* main_ = nullptr;  // where run() resumes, and its stack
  const void* main_stack_ = nullptr;
  size_t main_size_ = 0;
  bool entered_ = false;
  int left_ = 0, turns_ = 0;
  int current_ = -1;  // the running fibre
  bool stuck_ = false, unmade_ = false;
  bool reused_ = false;  // an mbarrier's memory was reused while the mbarrier was valid
};

thread_local Blocks* running = nullptr;

void Blocks::enter() {
  Blocks& block = *running;
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (!block.entered_) block.main_stack_ = bottom, block.main_size_ = size;
  block.entered_ = true;
#endif
  block.kernel_(block.arguments_);
  block.finish();
}

}  // namespace

void wait_for_block() { running->wait_for_block(); }
void wait_for_warp() { running->wait_for_warp(); }
void progress() { running->progress(); }
void copy_async_16(uint8_t* to, const uint8_t* from) { running->copy_async_16(to, from); }
void commit_copies() { running->commit_copies(); }
void wait_for_copies(int left) { running->wait_for_copies(left); }
void init_mbarrier(Mbarrier* mbarrier, int arrivals) { running->init_mbarrier(mbarrier, arrivals); }
void copy_bulk(Mbarrier* mbarrier, uint8_t* to, const uint8_t* from, size_t bytes) {
  running->copy_bulk(mbarrier, {to, from, bytes});
}
void arrive(Mbarrier* mbarrier) { running->arrive(mbarrier); }
void wait_for_phase(Mbarrier* mbarrier, int turn) { running->wait_for_phase(mbarrier, turn); }

void run(void (*kernel)(const void*), const void* arguments, const LaunchSize& size) {
  Blocks blocks(kernel, arguments, size);
  running = &blocks;
  for (int z = 0; z < size.blocks_z; ++z)
    for (int y = 0; y < size.blocks_y; ++y)
      for (int x = 0; x < size.blocks_x; ++x) blocks.run(x, y, z);
  running = nullptr;
}

}  // namespace veery::gpu::emulated

namespace veery::gpu {

HeldWarps::HeldWarps(uint32_t warps) { emulated::held_warps = warps; }
HeldWarps::~HeldWarps() { emulated::held_warps = 0; }

}  // namespace veery::gpu
