// switch_stack.h: one thread of the system on many stacks, which change places by a call.
#pragma once
#include <cstdint>

namespace veery::gpu::emulated {

/// What is kept of the caller is on its stack, and where that ends in *left_at; goes on where `to`
/// was left. A few instructions: ucontext.h asks the system at each change, and setjmp() beside
/// AddressSanitizer clears all of its marks on the stack.
extern "C" void veery_switch_stack(void** left_at, void* to);

/// What is switched to for the first time, so that `entry` is called, which never returns. `top`:
/// the end of the stack, a multiple of 16.
void* begin_stack(uint8_t* top, void (*entry)());

}  // namespace veery::gpu::emulated
