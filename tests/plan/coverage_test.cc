// The table of ops in docs/ops.md is up to date with the op table, the gradient rules and the
// reference kernels, and every op has everything that an op must have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "autodiff/rule.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

const char* const kBegin = "<!-- made by tests/plan/coverage_test.cc -->\n";
const char* const kEnd = "<!-- end -->\n";

std::string names(std::span<const std::string_view> list) {
  std::string text;
  for (const std::string_view name : list)
    if (!name.empty()) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string_view group_name(OpGroup group) {
  switch (group) {
    case OpGroup::kLeaf: return "leaf";
    case OpGroup::kForward: return "forward";
    case OpGroup::kBackward: return "backward";
    case OpGroup::kFused: return "fused";
  }
  return "";
}

std::string effect_of(const OpDef& def) {
  if (def.is_view()) return "a view of " + std::string(def.inputs[static_cast<size_t>(def.alias)]);
  std::string text;
  for (int i = 0; i < def.input_count(); ++i)
    if ((def.writes >> i & 1U) != 0)
      text += (text.empty() ? "writes " : ", ") + std::string(def.inputs[static_cast<size_t>(i)]);
  return text;
}

// The kernels of an op in kernels/reference.
std::string reference_of(Op op) {
  if (op->kernel_form != nullptr) return "of its kernel form";
  std::string text;
  for (const KernelRows rows : reference_tables())
    for (const KernelRow& row : rows)
      if (row.op == op) text += (text.empty() ? "" : ", ") + std::string(row.kernel.name);
  return text;
}

std::string rule_of(bool there, std::string_view why_not) {
  return there ? "yes" : "no: " + std::string(why_not);
}

std::string table() {
  std::ostringstream out;
  out << "| op | group | inputs (`?`: may be absent) | outputs (`?`: if used) | cost | reference | "
         "decomposition | effect | vjp | jvp |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Op op : all_ops()) {
    const DiffDef* rule = find_rule(op);
    out << "| `" << op->name << "` | " << group_name(op->group) << " | " << names(op->inputs)
        << " | " << (op->group == OpGroup::kLeaf ? "" : names(op->outputs)) << " | "
        << (op->cost != nullptr ? "yes" : "bytes only") << " | " << reference_of(op) << " | "
        << (op->decompose != nullptr ? "yes" : "") << " | " << effect_of(op.def()) << " | "
        << (rule == nullptr ? "" : rule_of(rule->vjp != nullptr, rule->no_vjp)) << " | "
        << (rule == nullptr ? "" : rule_of(rule->jvp != nullptr, rule->no_jvp)) << " |\n";
  }
  return out.str();
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Coverage, EveryForwardOpHasARuleOrAReason) {
  for (const Op op : all_ops()) {
    SCOPED_TRACE(op->name);
    const DiffDef* rule = find_rule(op);
    ASSERT_EQ(rule != nullptr, op->group == OpGroup::kForward);
    if (rule == nullptr) continue;
    EXPECT_NE(rule->vjp != nullptr, !rule->no_vjp.empty());
    EXPECT_NE(rule->jvp != nullptr, !rule->no_jvp.empty());
  }
}

// Integers have no derivative, and the trace of a model for training has no caches.
TEST(Coverage, EveryOpOnNumbersHasDerivatives) {
  for (const Op op : all_ops()) {
    const DiffDef* rule = find_rule(op);
    if (rule == nullptr || op == op::kArgmax || op == op::kChoosePositions || op == op::kCacheWrite)
      continue;
    EXPECT_TRUE(rule->vjp != nullptr && rule->jvp != nullptr) << op->name;
  }
}

TEST(Coverage, EveryOpHasARow) {
  std::vector<std::string_view> seen;
  for (const Op op : all_ops()) {
    SCOPED_TRACE(op->name);
    EXPECT_FALSE(op->name.empty());
    EXPECT_EQ(std::ranges::count(seen, op->name), 0);
    seen.push_back(op->name);
    EXPECT_EQ(op->infer == nullptr, op->group == OpGroup::kLeaf);
    EXPECT_EQ(op->input_count() == 0, op->group == OpGroup::kLeaf);
    EXPECT_LT(op->alias, op->input_count());
    EXPECT_TRUE(op->group != OpGroup::kFused || op->decompose != nullptr);
    EXPECT_EQ(reference_of(op).empty(), op->group == OpGroup::kLeaf || op->is_view());
  }
}

TEST(Coverage, ThePageIsTheTable) {
  const std::string path = std::string(VEERY_SOURCE_DIR) + "/docs/ops.md";
  std::string page = read(path);
  const size_t begin = page.find(kBegin);
  const size_t end = page.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end) << path;
  const size_t from = begin + std::string_view(kBegin).size();
  if (std::getenv("VEERY_WRITE_DOCS") != nullptr) {
    page.replace(from, end - from, table());
    std::ofstream(path) << page;
    return;
  }
  std::istringstream lines(table());
  std::string line;
  std::getline(lines, line);
  const auto columns = std::ranges::count(line, '|');
  while (std::getline(lines, line)) EXPECT_EQ(std::ranges::count(line, '|'), columns) << line;
  EXPECT_EQ(page.substr(from, end - from), table())
      << "docs/ops.md is not up to date: VEERY_WRITE_DOCS=1 plan_test --gtest_filter='Coverage.*'";
}

}  // namespace
}  // namespace veery
