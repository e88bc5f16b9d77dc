// switch_stack.h: runs several stacks on one system thread and switches between them.
#pragma once
#include <cstdint>

namespace veery::gpu::emulated {

/// Saves the caller's registers on its stack and the stack pointer in *left_at, then resumes the
/// stack `to`. Takes a few instructions: ucontext.h makes a system call for each switch, and
/// setjmp() clears all shadow marks of the stack under AddressSanitizer.
extern "C" void veery_switch_stack(void** left_at, void* to);

/// Returns a stack that calls `entry` when it is first switched to; `entry` must not return. `top`
/// is the end of the stack, a multiple of 16.
void* begin_stack(uint8_t* top, void (*entry)());

}  // namespace veery::gpu::emulated
