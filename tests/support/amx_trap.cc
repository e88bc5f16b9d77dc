// Emulates AMX instructions on processors or systems without AMX: the SIGILL handler decodes the
// faulting instruction (Intel SDM volume 2, VEX) and executes it in plain C++. A program linked
// with this file believes that AMX is available, so the actual instructions of the kernels are
// tested on any machine. Anything that would fault on real hardware ends the program.
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dtype/decode.h"
#include "kernels/cpu/tiles/amx.h"

namespace veery {

namespace {

// With AMX hardware, some instructions execute and others wait for the system's permission, so the
// handler would not see all of them.
bool processor_has_tiles() {
  constexpr unsigned kTiles = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTiles) != 0;
}

}  // namespace

// Replaces the functions of kernels/cpu/tiles/amx.cc.
bool amx_usable() { return !processor_has_tiles(); }
const char* amx_refusal() {
  return processor_has_tiles() ? "the processor has them, kernels_test tests those" : "";
}

namespace {

struct Tile {
  int rows = 0, row_bytes = 0;
  alignas(64) uint8_t data[kTileRows][kTileRowBytes];
};
thread_local Tile tiles[kTiles];

constexpr int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};

// A decoded instruction in VEX map 0F38 with 128 bits and W0, like all AMX instructions.
struct Instruction {
  const uint8_t* code;
  const uint8_t* end;
  int opcode, prefix, mode, left, right, third;  // ModRM.reg, ModRM.rm, VEX.vvvv
  bool has_sib = false;
  uint8_t* address = nullptr;
  int64_t stride = 0;  // the index register, scaled

  [[noreturn]] void fail(const char* what) const {
    std::fprintf(stderr, "illegal instruction, %s:", what);
    for (int i = 0; i < 12; ++i) std::fprintf(stderr, " %02x", code[i]);
    std::fputc('\n', stderr);
    std::_Exit(1);
  }
  void require(bool met, const char* what) const {
    if (!met) fail(what);
  }
  bool is(int its_opcode, int its_prefix) const {
    return opcode == its_opcode && prefix == its_prefix;
  }
};

int32_t displacement_of(int bytes, Instruction& in) {
  int32_t value = 0;
  std::memcpy(&value, in.end, static_cast<size_t>(bytes));
  in.end += bytes;
  return bytes == 1 ? static_cast<int8_t>(value) : value;
}

void decode_memory(const greg_t* registers, int high_index, int high_base, Instruction& in) {
  int base = in.right;
  if (in.right == 4) {
    in.has_sib = true;
    base = *in.end & 7;
    const int index = (*in.end >> 3 & 7) | high_index << 3;
    in.stride = index == 4 ? 0 : registers[kRegisters[index]] << (*in.end >> 6);
    ++in.end;
  }
  // No base register. Without a SIB byte, the address is relative to the next instruction.
  const bool no_base = in.mode == 0 && base == 5;
  constexpr int kBytes[] = {0, 1, 4};
  const int32_t displacement = displacement_of(no_base ? 4 : kBytes[in.mode], in);
  greg_t start = in.has_sib ? 0 : reinterpret_cast<greg_t>(in.end);
  if (!no_base) start = registers[kRegisters[base | high_base << 3]];
  in.address = reinterpret_cast<uint8_t*>(start + displacement);
}

Instruction decode(const greg_t* registers) {
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  Instruction in = {.code = code,
                    .end = code + 5,
                    .opcode = code[3],
                    .prefix = code[2] & 3,
                    .mode = code[4] >> 6,
                    .left = code[4] >> 3 & 7,
                    .right = code[4] & 7,
                    .third = 15 - (code[2] >> 3 & 15)};
  in.require(code[0] == 0xC4 && (code[1] & 31) == 2 && (code[2] & 0x84) == 0, "none of AMX");
  in.require((code[1] & 0x80) != 0 && (in.mode != 3 || (code[1] & 0x20) != 0), "no such tile");
  if (in.mode != 3) decode_memory(registers, ~code[1] >> 6 & 1, ~code[1] >> 5 & 1, in);
  return in;
}

Tile& configured(const Instruction& in, int number) {
  in.require(number < kTiles && tiles[number].rows > 0, "a tile without a configuration");
  return tiles[number];
}

void configure(const Instruction& in) {
  TileConfig config;
  std::memcpy(&config, in.address + in.stride, sizeof config);
  in.require(config.palette == 1 && config.start_row == 0, "palette or first row");
  for (const uint8_t byte : config.reserved) in.require(byte == 0, "a reserved byte is set");
  for (int i = 0; i < 16; ++i) {
    const int rows = config.rows[i];
    const int row_bytes = config.row_bytes[i];
    in.require(i < kTiles || (rows == 0 && row_bytes == 0), "more than 8 tiles");
    in.require(rows <= kTileRows && row_bytes <= kTileRowBytes && row_bytes % 4 == 0 &&
                   (rows == 0) == (row_bytes == 0),
               "the shape of a tile");
    if (i < kTiles) tiles[i] = {.rows = rows, .row_bytes = row_bytes, .data = {}};
  }
}

void release() {
  for (Tile& tile : tiles) tile = {.data = {}};
}

void move(const Instruction& in, bool load) {
  in.require(in.has_sib, "no SIB byte");
  Tile& tile = configured(in, in.left);
  const auto size = static_cast<size_t>(tile.row_bytes);
  if (load) std::memset(tile.data, 0, sizeof tile.data);
  for (int r = 0; r < tile.rows; ++r) {
    uint8_t* row = in.address + r * in.stride;
    load ? std::memcpy(tile.data[r], row, size) : std::memcpy(row, tile.data[r], size);
  }
}

// AMX treats denormal operands and results as zeros.
float flush_subnormal(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}

float half_at(const Tile& tile, int row, int index) {
  uint16_t half;
  std::memcpy(&half, tile.data[row] + 2 * index, 2);
  return flush_subnormal(bf16_to_f32(half));
}

struct Product {
  Tile& c;
  const Tile &a, &b;
};
Product product(const Instruction& in) {
  Tile& c = configured(in, in.left);
  const Tile& a = configured(in, in.right);
  const Tile& b = configured(in, in.third);
  in.require(&a != &b && &a != &c && &b != &c, "the same tile twice");
  in.require(a.rows == c.rows && b.row_bytes == c.row_bytes && a.row_bytes / 4 == b.rows,
             "shapes do not fit");
  return {c, a, b};
}

// TDPBF16PS: fma chains over the even and over the odd elements, their sum, and the sum with the
// accumulator; each step rounds to nearest even.
void multiply(const Instruction& in) {
  const auto [c, a, b] = product(in);
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      float sum[2] = {};
      for (int p = 0; p < b.rows; ++p)
        for (int i = 0; i < 2; ++i)
          sum[i] =
              flush_subnormal(std::fma(half_at(a, m, 2 * p + i), half_at(b, p, 2 * n + i), sum[i]));
      float total;
      std::memcpy(&total, c.data[m] + 4 * n, 4);
      total = flush_subnormal(flush_subnormal(total) + flush_subnormal(sum[0] + sum[1]));
      std::memcpy(c.data[m] + 4 * n, &total, 4);
    }
}

// TDPBSSD and TDPBSUD: the second operand has signed bytes, the third signed or unsigned ones.
void multiply_bytes(const Instruction& in, bool third_signed) {
  const auto [c, a, b] = product(in);
  for (int m = 0; m < c.rows; ++m)
    for (int n = 0; n < c.row_bytes / 4; ++n) {
      int32_t total;
      std::memcpy(&total, c.data[m] + 4 * n, 4);
      for (int p = 0; p < a.row_bytes; ++p) {
        const uint8_t right = b.data[p / 4][4 * n + p % 4];
        total += static_cast<int8_t>(a.data[m][p]) *
                 (third_signed ? int{static_cast<int8_t>(right)} : int{right});
      }
      std::memcpy(c.data[m] + 4 * n, &total, 4);
    }
}

void execute(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const Instruction in = decode(registers);
  constexpr int kNone = 0, kF3 = 2, kF2 = 3;  // VEX.pp
  const bool on_registers = in.mode == 3;
  if (in.is(0x49, kNone) && !on_registers && in.left == 0)
    configure(in);
  else if (in.is(0x49, kNone) && on_registers && in.left == 0 && in.right == 0)
    release();
  else if (in.is(0x49, kF2) && on_registers && in.right == 0)
    std::memset(configured(in, in.left).data, 0, kTileBytes);
  else if ((in.is(0x4B, kF2) || in.is(0x4B, kF3)) && !on_registers)
    move(in, in.prefix == kF2);
  else if (in.is(0x5C, kF3) && on_registers)
    multiply(in);
  else if ((in.is(0x5E, kF2) || in.is(0x5E, kF3)) && on_registers)
    multiply_bytes(in, in.prefix == kF2);
  else
    in.fail("not known here");
  registers[REG_RIP] = reinterpret_cast<greg_t>(in.end);
}

[[maybe_unused]] const bool kInstalled = [] {
  struct sigaction action = {};
  action.sa_sigaction = execute;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, nullptr) == 0;
}();

}  // namespace
}  // namespace veery
