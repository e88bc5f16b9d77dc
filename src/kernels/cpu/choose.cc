// Chooses the kernel of an op, and detects the instruction sets of the machine.
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <hwy/targets.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "kernels/common/float_kernels.h"
#include "kernels/compiled_targets.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear/head_linear.h"
#include "kernels/cpu/moe/moe.h"
#include "kernels/cpu/pruned_head/pruned_argmax.h"
#include "kernels/cpu/tiles/amx.h"
#include "kernels/kernels.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

// Families of fast kernels, in order of preference. Reference kernels come after them.
constexpr KernelRows (*kFamilies[])() = {
    fast_attend, fast_elementwise, fast_argmax, fast_rms_norm,         fast_layer_norm,
    fast_rope,   fast_scan,        fast_conv1d, fast_choose_positions,
};

// Returns whether kernels compiled for one target can serve `machine`. Kernels without integer dot
// products are compiled once for the targets with and without these instructions.
bool runs_on(Target compiled, Target machine) {
  const Target vectors = vectors_of(machine);
  return compiled == vectors || compiled == Target::kReference ||
         (compiled == Target::kAvx2 && vectors == Target::kAvxVnni) ||
         (compiled == Target::kAvx512 && vectors == Target::kAvx512Vnni) ||
         (compiled == Target::kNeon && vectors == Target::kNeonDot);
}

#if HWY_ARCH_X86_64
// CPUID leaf 7, sub-leaf 1, bit 4 of EAX (Intel SDM volume 2A).
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

// Returns the NEON targets of this machine, best first. Every 64-bit ARM processor has NEON.
std::vector<Target> neon_targets() {
#if defined(__aarch64__) && defined(__linux__)
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) return {Target::kNeonDot, Target::kNeon};
#endif
#if defined(__aarch64__)
  return {Target::kNeon};
#else
  return {};
#endif
}

std::string_view name(Layout layout) {
  switch (layout) {
    case Layout::kNone: return "none";
    case Layout::kRowMajor: return "rows";
    case Layout::kPanels: return "panels";
    case Layout::kKeyPages: return "key pages";
    case Layout::kValuePages: return "value pages";
    case Layout::kBlocks: return "blocks";
  }
  return "unknown";
}

std::string describe(const Dispatch& d) {
  std::string text;
  for (const Operand& o : d.in)
    if (o)
      text += fmt::format("{}{} {} x {} in {}", text.empty() ? "" : ", ", info(o.dtype).name,
                          o.rows, o.cols, name(o.layout));
  return text;
}

}  // namespace

std::string_view name(Target target) {
  switch (target) {
    case Target::kReference: return "reference";
    case Target::kPlain: return "plain";
    case Target::kAvx2: return "avx2";
    case Target::kAvxVnni: return "avx_vnni";
    case Target::kAvx512: return "avx512";
    case Target::kAvx512Vnni: return "avx512_vnni";
    case Target::kAmx: return "amx";
    case Target::kAmxEmulated: return "amx_emulated";
    case Target::kNeon: return "neon";
    case Target::kNeonDot: return "neon_dotprod";
  }
  return "unknown";
}

std::vector<Target> compiled_targets() {
#if HWY_ARCH_X86_64
  return {Target::kAmx,  Target::kAvx512Vnni, Target::kAvx512,   Target::kAvxVnni,
          Target::kAvx2, Target::kPlain,      Target::kReference};
#elif defined(__aarch64__)
  return {Target::kNeonDot, Target::kNeon, Target::kPlain, Target::kReference};
#else
  return {Target::kPlain, Target::kReference};
#endif
}

std::vector<Target> supported_targets() {
  std::vector<Target> targets = neon_targets();
#if HWY_ARCH_X86_64
  const int64_t has = hwy::SupportedTargets();
  if ((has & HWY_AVX3_DL) != 0 && amx_usable()) targets.push_back(Target::kAmx);
  if ((has & HWY_AVX3_DL) != 0) targets.push_back(Target::kAvx512Vnni);
  if ((has & HWY_AVX3) != 0) targets.push_back(Target::kAvx512);
  if ((has & HWY_AVX2) != 0 && has_avx_vnni()) targets.push_back(Target::kAvxVnni);
  if ((has & HWY_AVX2) != 0) targets.push_back(Target::kAvx2);
#endif
  targets.push_back(Target::kPlain);
  targets.push_back(Target::kReference);
  return targets;
}

Kernel choose_kernel(Op op, const Dispatch& dispatch, const KernelChoice& choice) {
  // Kernels with packed weights come first, also for Target::kReference: packed weights have no
  // reference kernels, and linear.h defines the results.
  for (const auto in_panels : {pruned_argmax_kernel, linear_kernel, moe_kernel, head_linear_kernel})
    if (const Kernel kernel = in_panels(op, dispatch, choice); kernel.phases[0] != nullptr)
      return kernel;
  const auto accepted = [&](KernelRows rows) {
    return std::ranges::find_if(rows, [&](const KernelRow& row) {
      return row.op == op && runs_on(row.target, choice.target) && row.accepts(dispatch, choice);
    });
  };
  for (const auto family : kFamilies)
    if (const auto row = accepted(family()); row != family().end()) return row->kernel;
  for (const KernelRows rows : reference_tables())
    if (const auto row = accepted(rows); row != rows.end()) return row->kernel;
  throw Error(ErrorKind::kUnsupported, "{}: no kernel for {}", op->name, describe(dispatch));
}

}  // namespace veery
