#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

#include "base/mapped_file.h"

namespace veery {

// Slots are reused but never freed, so that the handler can walk the list without a lock.
struct MappedRange::Slot {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> damaged{false};
  bool used = false;  // guarded by Handler::mutex
  Slot* next = nullptr;
};

namespace {

using Slot = MappedRange::Slot;
static_assert(std::atomic<uintptr_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free && std::atomic<Slot*>::is_always_lock_free);

struct Handler {
  std::mutex mutex;
  std::atomic<Slot*> slots{nullptr};
  int used = 0;
  bool installed = false;
  struct sigaction before {};  // written before the handler is installed
  uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
};

// Never destroyed: mappings with static storage duration may outlive other statics.
Handler& handler() {
  static Handler* const only = new Handler;
  return *only;
}

// Avoids the initialisation guard of a static, which a signal handler must not run.
std::atomic<Handler*> active{nullptr};

Slot* find(const Handler& all, uintptr_t address) {
  for (Slot* slot = all.slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next)
    if (address >= slot->begin.load(std::memory_order_acquire) &&
        address < slot->end.load(std::memory_order_acquire))
      return slot;
  return nullptr;
}

// Maps zero pages over the faulting page and all that follow, which are missing too if the file
// shrank. mmap() is a plain system call on Linux and therefore safe in a signal handler.
bool replace_from(const Handler& all, Slot& slot, uintptr_t address) {
  const uintptr_t first = address / all.page * all.page;
  const uintptr_t end =
      (slot.end.load(std::memory_order_acquire) + all.page - 1) / all.page * all.page;
  slot.damaged.store(true, std::memory_order_release);
  return ::mmap(reinterpret_cast<void*>(first), end - first, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// Forwards the signal to the previous handler. The default action kills the process when the
// faulting instruction runs again, so that the core dump shows it.
void pass_on(const Handler& all, int signal, siginfo_t* info, void* context) {
  if ((all.before.sa_flags & SA_SIGINFO) != 0)
    return all.before.sa_sigaction(signal, info, context);
  const bool sent = info->si_code <= 0;  // by kill() or raise()
  if (all.before.sa_handler == SIG_IGN && sent) return;
  if (all.before.sa_handler != SIG_IGN && all.before.sa_handler != SIG_DFL)
    return all.before.sa_handler(signal);
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(signal, &by_default, nullptr);
  if (sent) ::raise(signal);
}

extern "C" void handle_bus_error(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  Handler& all = *active.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  Slot* slot = info->si_code == BUS_ADRERR ? find(all, address) : nullptr;
  if (slot == nullptr || !replace_from(all, *slot, address)) pass_on(all, signal, info, context);
  errno = before;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle_bus_error;
}

void install(Handler& all) {
  if (all.installed) return;
  active.store(&all, std::memory_order_release);
  ::sigaction(SIGBUS, nullptr, &all.before);
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
  all.installed = true;
}

// Restores the previous handler. Does nothing if the host program has installed another handler
// since, because that one may forward faults to ours.
void uninstall(Handler& all) {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  if (!is_ours(now)) return;
  ::sigaction(SIGBUS, &all.before, nullptr);
  all.installed = false;
}

}  // namespace

void unblock_bus_errors() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGBUS);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

MappedRange::MappedRange(const std::byte* data, size_t size) {
  unblock_bus_errors();
  Handler& all = handler();
  const std::lock_guard lock(all.mutex);
  slot_ = all.slots.load(std::memory_order_relaxed);
  while (slot_ != nullptr && slot_->used) slot_ = slot_->next;
  if (slot_ == nullptr) {
    slot_ = new Slot;
    slot_->next = all.slots.load(std::memory_order_relaxed);
    all.slots.store(slot_, std::memory_order_release);
  }
  slot_->used = true;
  slot_->damaged.store(false, std::memory_order_relaxed);
  slot_->begin.store(reinterpret_cast<uintptr_t>(data), std::memory_order_release);
  slot_->end.store(reinterpret_cast<uintptr_t>(data) + size, std::memory_order_release);
  ++all.used;
  install(all);
}

MappedRange::~MappedRange() {
  Handler& all = handler();
  const std::lock_guard lock(all.mutex);
  slot_->end.store(0, std::memory_order_release);
  slot_->begin.store(0, std::memory_order_release);
  slot_->used = false;
  if (--all.used == 0) uninstall(all);
}

bool MappedRange::is_damaged() const noexcept {
  return slot_->damaged.load(std::memory_order_acquire);
}

}  // namespace veery
