#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/gpu/dialect/emulator.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace veery::gpu::emulated {
namespace {

constexpr size_t kStack = size_t{128} << 10;
constexpr int kWarpThreads = 32;

// How many have come to a barrier, and how often it was passed.
struct Barrier {
  int arrived = 0;
  uint64_t passed = 0;
};

struct Fibre {
  ucontext_t context{};
  jmp_buf jump{};
  uint8_t* stack = nullptr;
  bool entered = false, done = false;
};

// Stacks are kept: to clear new ones takes longer than what runs on them.
uint8_t* stack_of(size_t fibre) {
  thread_local std::vector<std::unique_ptr<uint8_t[]>> stacks;
  while (stacks.size() <= fibre)
    stacks.push_back(std::make_unique_for_overwrite<uint8_t[]>(kStack));
  return stacks[fibre].get();
}

struct Copy {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes = 16;
};
// Of an mbarrier: what was asked for since it was last passed, and by how many lanes. The mbarrier
// itself counts how often it was passed.
struct Asked {
  std::vector<Copy> pieces;
  int lanes = 0;
  int arrivals = kWarpThreads;  // of lanes, that a turn wants
};
constexpr int kGarbage = 0xa5;
/// Of one thread: the last group is the one that copies are still added to.
using CopyGroups = std::deque<std::vector<Copy>>;

// The fibres of one block after another, or of all blocks where these wait for each other; made
// once a launch.
class Blocks {
 public:
  Blocks(void (*kernel)(const void*), const void* arguments, const LaunchSize& size)
      : kernel_(kernel),
        arguments_(arguments),
        size_(size),
        count_(size.cooperative ? size.blocks_x : 1),
        shared_words_(size.shared / sizeof(Aligned) + 1),
        fibres_(static_cast<size_t>(count_ * size.threads)),
        warps_(fibres_.size() / kWarpThreads + 1),
        blocks_(static_cast<size_t>(count_)),
        shared_(shared_words_ * blocks_.size()),
        exchanged_(fibres_.size()) {
    VEERY_CHECK(count_ == 1 || size.threads % kWarpThreads == 0);
    for (size_t i = 0; i < fibres_.size(); ++i) {
      fibres_[i].stack = stack_of(i);
      ::getcontext(&fibres_[i].context);
    }
  }

  int count() const { return count_; }
  void run(int x, int y, int z) {
    first_ = x;
    place_ = {.threads = size_.threads, .y = y, .z = z, .blocks_x = size_.blocks_x};
    left_ = fibres();
    stuck_ = unmade_ = false;
    turns_ = 0;
    copies_.assign(fibres_.size(), CopyGroups(1));
    asked_.clear();
    for (Fibre& fibre : fibres_) start(fibre);
    current_ = 0;
    switch_to(nullptr, 0);
    if (stuck_) throw Error(ErrorKind::kBug, "emulator: threads of a block wait for one another");
    for (const auto& [mbarrier, asked] : asked_) unmade_ |= asked.lanes > 0;
    if (unmade_) throw Error(ErrorKind::kBug, "emulator: a thread ends before its copies are made");
  }

  // Until all threads that `barrier` is for have come.
  void wait(Barrier& barrier, int threads) {
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.passed;
      turns_ = 0;
    } else {
      const uint64_t passed = barrier.passed;
      while (barrier.passed == passed && !stuck_) give_way();
    }
  }
  void wait_for_grid() { wait(grid_, fibres()); }
  void wait_for_block() { wait(blocks_[static_cast<size_t>(block())], size_.threads); }
  void wait_for_warp() {
    const int warp = current_ / kWarpThreads;
    wait(warps_[static_cast<size_t>(warp)], std::min(kWarpThreads, fibres() - warp * kWarpThreads));
  }
  void wait_for_flag(const int32_t* flag, int32_t least) {
    while (*static_cast<const volatile int32_t*>(flag) < least && !stuck_) give_way();
  }
  void progress() { turns_ = 0; }
  void begin_copy(uint8_t* to, const uint8_t* from) {
    std::memset(to, kGarbage, 16);
    own_copies().back().push_back({to, from});
  }
  void end_group() { own_copies().emplace_back(); }
  void wait_for_groups(int left) {
    CopyGroups& groups = own_copies();
    for (; groups.size() > static_cast<size_t>(left) + 1; groups.pop_front())
      for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, 16);
  }
  void make_mbarrier(Mbarrier* mbarrier, int arrivals) {
    *mbarrier = 0;
    asked_[mbarrier] = {{}, 0, arrivals};
  }
  void ask_piece(Mbarrier* mbarrier, const Copy& piece) {
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
  void wait_for_pieces(Mbarrier* mbarrier, int turn) {
    const auto passed = [&] { return *mbarrier % 2 != static_cast<uint64_t>(turn % 2); };
    while (!passed() && !stuck_) {
      Asked& asked = asked_.at(mbarrier);
      if (asked.lanes < asked.arrivals) {
        give_way();
        continue;
      }
      for (const Copy& piece : asked.pieces)
        if (piece.bytes > 0) std::memcpy(piece.to, piece.from, piece.bytes);
      asked = {{}, 0, asked.arrivals};
      ++*mbarrier;
    }
  }
  Place& place() { return place_; }
  uint8_t* exchanged(int thread) {
    return exchanged_[static_cast<size_t>(block() * size_.threads + thread)].bytes;
  }

 private:
  struct alignas(64) Aligned {
    uint8_t bytes[64];
  };
  struct Exchanged {
    uint8_t bytes[32];
  };

  int fibres() const { return static_cast<int>(fibres_.size()); }
  int block() const { return current_ / size_.threads; }
  // Which fibre runs from here on.
  void set_current(int fibre) {
    current_ = fibre;
    place_.thread = fibre % size_.threads;
    place_.x = first_ + block();
    place_.shared = shared_[static_cast<size_t>(block()) * shared_words_].bytes;
  }
  CopyGroups& own_copies() { return copies_[static_cast<size_t>(current_)]; }
  void start(Fibre& fibre) {
    fibre.context.uc_stack.ss_sp = fibre.stack;
    fibre.context.uc_stack.ss_size = kStack;
    fibre.context.uc_link = nullptr;
    fibre.entered = fibre.done = false;
    ::makecontext(&fibre.context, enter, 0);
#if defined(__SANITIZE_ADDRESS__)
    // Of a stack whose size it knows swapcontext() would forget all marks, at each change: half of
    // the time of a test, and no access beyond a variable would be found.
    fibre.context.uc_stack.ss_size = 0;
    // Frames that were left and not returned from have marks on the stack.
    __asan_unpoison_memory_region(fibre.stack, kStack);
#endif
  }
  static void enter();

  // The next thread that has something left to do; the caller's context is kept in `from`.
  void give_way() {
    if (++turns_ > 4 * fibres()) stuck_ = true;
    const int from = current_;
    int to = from;
    do {
      to = (to + 1) % fibres();
    } while (fibres_[static_cast<size_t>(to)].done);
    if (to != from) switch_to(&fibres_[static_cast<size_t>(from)], to);
  }
  bool has_unmade_copies() {
    return std::ranges::any_of(own_copies(), [](const auto& group) { return !group.empty(); });
  }
  void finish() {
    turns_ = 0;
    unmade_ = unmade_ || has_unmade_copies();
    fibres_[static_cast<size_t>(current_)].done = true;
    if (--left_ > 0) {
      int to = current_;
      do {
        to = (to + 1) % fibres();
      } while (fibres_[static_cast<size_t>(to)].done);
      leave_for(to);
    }
    leave_for(-1);
  }

  // The first time a fibre is entered by setcontext(), later by a jump, which asks nothing of the
  // system. AddressSanitizer wants to know of each change of stacks. -1: back to run().
  void switch_to(Fibre* from, int to) {
    const int own = current_;
    set_current(to);
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fibre(to).stack, kStack);
    ::swapcontext(from != nullptr ? &from->context : &main_, &fibre(to).context);
    const void* bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
#else
    if (_setjmp(from != nullptr ? from->jump : main_jump_) == 0) enter_fibre(to);
#endif
    set_current(own);
  }
  void leave_for(int to) {
    if (to >= 0) set_current(to);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(nullptr, to < 0 ? main_stack_ : fibre(to).stack,
                                   to < 0 ? main_size_ : kStack);
    ::setcontext(to < 0 ? &main_ : &fibre(to).context);
#else
    if (to < 0) _longjmp(main_jump_, 1);
    enter_fibre(to);
#endif
  }
  void enter_fibre(int to) {
    if (std::exchange(fibre(to).entered, true)) _longjmp(fibre(to).jump, 1);
    ::setcontext(&fibre(to).context);
  }
  Fibre& fibre(int thread) { return fibres_[static_cast<size_t>(thread)]; }

  void (*kernel_)(const void*);
  const void* arguments_;
  LaunchSize size_;
  int count_;  // blocks whose fibres there are at once
  size_t shared_words_;
  std::vector<Fibre> fibres_;
  std::vector<Barrier> warps_, blocks_;
  Barrier grid_;
  std::vector<Aligned> shared_;
  std::vector<Exchanged> exchanged_;
  std::vector<CopyGroups> copies_;
  std::map<Mbarrier*, Asked> asked_;
  Place place_;
  ucontext_t main_{};
  jmp_buf main_jump_{};
  const void* main_stack_ = nullptr;
  size_t main_size_ = 0;
  bool entered_ = false;
  int left_ = 0, turns_ = 0;
  int first_ = 0, current_ = 0;  // the first of the blocks, the fibre that runs
  bool stuck_ = false, unmade_ = false;
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

Place& place() { return running->place(); }
void wait_for_block() { running->wait_for_block(); }
void wait_for_warp() { running->wait_for_warp(); }
void wait_for_grid() { running->wait_for_grid(); }
void wait_for_flag(const int32_t* flag, int32_t least) { running->wait_for_flag(flag, least); }
void progress() { running->progress(); }
uint8_t* exchanged(int thread) { return running->exchanged(thread); }
void begin_copy(uint8_t* to, const uint8_t* from) { running->begin_copy(to, from); }
void end_group() { running->end_group(); }
void wait_for_groups(int left) { running->wait_for_groups(left); }
void make_mbarrier(Mbarrier* mbarrier, int arrivals) { running->make_mbarrier(mbarrier, arrivals); }
void ask_piece(Mbarrier* mbarrier, uint8_t* to, const uint8_t* from, size_t bytes) {
  running->ask_piece(mbarrier, {to, from, bytes});
}
void wait_for_pieces(Mbarrier* mbarrier, int turn) { running->wait_for_pieces(mbarrier, turn); }

void run(void (*kernel)(const void*), const void* arguments, const LaunchSize& size) {
  Blocks blocks(kernel, arguments, size);
  running = &blocks;
  for (int z = 0; z < size.blocks_z; ++z)
    for (int y = 0; y < size.blocks_y; ++y)
      for (int x = 0; x < size.blocks_x; x += blocks.count()) blocks.run(x, y, z);
  running = nullptr;
}

}  // namespace veery::gpu::emulated
