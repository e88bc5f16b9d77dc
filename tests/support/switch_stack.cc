#include "support/switch_stack.h"

#include <cstring>

#if defined(__APPLE__)
#define VEERY_SYMBOL "_veery_switch_stack"
#else
#define VEERY_SYMBOL "veery_switch_stack"
#endif

// Callee-saved registers (System V and ARM conventions) are pushed, and restored from the other
// stack. `kReturn` is the index of the return address among the saved words.
#if defined(__x86_64__)
constexpr int kKept = 8, kReturn = 6;  // words, with one that keeps the stack's alignment
asm(".text\n.balign 16\n.globl " VEERY_SYMBOL "\n" VEERY_SYMBOL R"(:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#elif defined(__aarch64__)
constexpr int kKept = 20, kReturn = 11;
asm(".text\n.balign 16\n.globl " VEERY_SYMBOL "\n" VEERY_SYMBOL R"(:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
#else
#error "the emulator of GPUs does not know how this processor changes stacks"
#endif

namespace veery::gpu::emulated {

void* begin_stack(uint8_t* top, void (*entry)()) {
  uint8_t* begin = top - kKept * sizeof(void*);
  std::memset(begin, 0, kKept * sizeof(void*));
  std::memcpy(begin + kReturn * sizeof(void*), &entry, sizeof entry);
  return begin;
}

}  // namespace veery::gpu::emulated
