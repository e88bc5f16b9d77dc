#!/usr/bin/env python3
"""Checks that linked x86-64 programs and libraries run on every processor with the baseline.

    check_targets.py PROGRAM...

Kernels are compiled for several instruction sets, each in its own namespace (N_AVX2, N_AVX3, ...). The script
disassembles each program and rejects:
  1. functions outside these namespaces with instructions beyond the x86-64 baseline (SSE2), and functions inside with
     instructions beyond the namespace's instruction set;
  2. calls and jumps from outside into these namespaces. They may only be entered through kernel tables, from which a
     kernel supported by the processor is chosen.
Requires objdump and c++filt (binutils)."""
import collections
import re
import subprocess
import sys

# Kernel namespaces and the instruction sets that they may use. src/kernels/cpu/simd/simd-inl.h explains why N_SSE4 has
# AVX-VNNI.
BASELINE = "baseline"
NAMESPACES = {
    "6N_AVX2": {"avx2"},
    "6N_SSE4": {"avx2", "vnni"},
    "6N_AVX3": {"avx2", "avx512", "bf16"},
    "9N_AVX3_DL": {"avx2", "avx512", "vnni", "ice lake", "bf16", "amx"},
}
# bf16 and amx: kernels that are only chosen by Target::kAmx and uses_bf16_dot().
NAMESPACE = re.compile("6N_AVX2|6N_SSE4|9N_AVX3_DL|6N_AVX3")

# Baseline functions that may use more, and the reason.
EXCEPTIONS = {
    "product_is_right": {"amx"},  # kernels/cpu/tiles/amx.cc: called once CPUID, XCR0 and the system allow tiles
    "find_refusal": {"amx"},  # the same, inlined
    "amx_refusal": {"amx"},
    "multiply_tiles": {"amx"},  # kernels/cpu/rows/peak_rates.cc: called where amx_usable()
}

# Instructions newer than SSE2 without AVX prefix. tzcnt executes as bsf on older processors; GCC uses it where both give
# the same result.
LATER = re.compile(
    r"addsubp[sd]|hsubp[sd]|haddp[sd]|lddqu|movddup|movs[hl]dup|fisttp\w*|pabs[bwd]|palignr|ph(add|sub)(d|sw|w)|"
    r"pmaddubsw|pmulhrsw|pshufb|psign[bwd]|blendv?p[sd]|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pblendvb|"
    r"pblendw|pcmpeqq|pextr[bdq]|phminposuw|pinsr[bdq]|pmaxs[bd]|pmaxu[wd]|pmins[bd]|pminu[wd]|pmov[sz]x\w+|pmuldq|"
    r"pmulld|ptest|round[ps][sd]|crc32\w*|pcmp[ei]str[im]|pcmpgtq|popcnt\w*|lzcnt\w*|aes\w+|pclmul\w+|sha(1|256)\w+|"
    r"movbe\w*|andn|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|adcx|adox|rdrand|rdseed|gf2p8\w+"
)
TILES = re.compile(r"tile\w+|tdp\w+|ldtilecfg|sttilecfg")
ICE_LAKE = re.compile(
    r"vpermb|vperm[it]2b|vpmultishiftqb|vpopcnt[bwdq]|vpcompress[bw]|vpexpand[bw]|vpsh[lr]dv?[wdq]|vpshufbitqmb|"
    r"vgf2p8\w+|vpmadd52\w+"
)
AVX512 = re.compile(r"%zmm|%k[0-7]|%[xyz]mm(1[6-9]|2\d|3[01])|\{1to\d+\}|\{r[nudz]-sae\}")


def needs(mnemonic, operands):
    """Returns the instruction set that an instruction needs beyond the baseline; None if none."""
    if TILES.fullmatch(mnemonic):
        return "amx"
    if not mnemonic.startswith(("v", "k")) or mnemonic in ("verr", "verw"):
        return "avx2" if LATER.fullmatch(mnemonic) else None
    if mnemonic.startswith(("vpdpbusd", "vpdpwssd")):
        return "vnni"
    if mnemonic.startswith(("vdpbf16ps", "vcvtne")):
        return "bf16"
    if ICE_LAKE.fullmatch(mnemonic):
        return "ice lake"
    return "avx512" if mnemonic.startswith("k") or AVX512.search(operands) else "avx2"


def namespace_of(symbol):
    found = NAMESPACE.search(symbol)
    return found.group() if found else BASELINE


def allowed_in(symbol):
    namespace = namespace_of(symbol)
    if namespace != BASELINE:
        return NAMESPACES[namespace]
    return set().union(*(what for name, what in EXCEPTIONS.items() if name in symbol))


HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LINE = re.compile(r"^\s*[0-9a-f]+:\s+((?:\{\w+\}|lock|rep[nz]?z?|bnd|notrack|data16|cs|ds|es|ss)\s+)*(\S+)\s*(.*)$")
TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>")


def findings(program):
    """Yields (function, violation, instruction), the first of each kind per function."""
    listing = subprocess.Popen(
        ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", program], stdout=subprocess.PIPE, text=True)
    symbol, allowed, seen, functions = "", set(), set(), collections.Counter()
    for line in listing.stdout:
        header = HEADER.match(line)
        if header:
            symbol = header.group(1)
            allowed, seen = allowed_in(symbol), set()
            functions[namespace_of(symbol)] += 1
            continue
        found = LINE.match(line)
        if not found:
            continue
        mnemonic, operands = found.group(2), found.group(3)
        need = needs(mnemonic, operands)
        if need and need not in allowed and need not in seen:
            seen.add(need)
            yield symbol, f"holds an instruction of {need}", f"{mnemonic} {operands}"
        if mnemonic.startswith(("call", "j")) and namespace_of(symbol) == BASELINE:
            target = TARGET.search(operands)
            if target and namespace_of(target.group(1)) != BASELINE:
                yield symbol, f"enters {target.group(1)}", f"{mnemonic}"
    if listing.wait() != 0:
        sys.exit(f"check_targets: objdump failed on {program}")
    for namespace in NAMESPACES:
        if functions[namespace] == 0:
            yield program, f"has no function in {namespace}: what is looked for is not found", ""
    if functions[BASELINE] < 1000:
        yield program, f"has {functions[BASELINE]} functions outside of kernels: are its symbols stripped?", ""


def check(program):
    """Prints the findings in a program. Returns whether there are none."""
    lines = [f"{symbol} {what}: {instruction}" for symbol, what, instruction in findings(program)]
    if not lines:
        print(f"check_targets: {program} holds what each instruction set has, and enters them by tables alone")
        return True
    print(subprocess.run(["c++filt"], input="\n".join(lines), capture_output=True, text=True, check=True).stdout)
    print(f"check_targets: {len(lines)} finding(s) in {program}", file=sys.stderr)
    return False


def main():
    programs = sys.argv[1:]
    if not programs or programs[0].startswith("-"):
        sys.exit(__doc__)
    if not all([check(program) for program in programs]):
        sys.exit(1)


if __name__ == "__main__":
    main()
