// Constant arrays and variables: types, sizes, and the order of reads and updates.
#include "plan/variables.h"

#include <gtest/gtest.h>

#include "array/array.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "plan/fuse.h"
#include "plan/plan.h"
#include "plan/split.h"

namespace veery {
namespace {

constexpr int kColumns = 4;

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(Variables, AreReadAndWrittenAsTheirType) {
  Graph graph;
  variable(graph, "floats", {{2, 3}});
  variable(graph, "bits", {{1, 2}, DType::kF16});
  VariableStore store;
  store.add(graph);
  store.add(graph);  // again without effect
  EXPECT_EQ(store.bytes(), 6 * sizeof(float) + 2 * sizeof(uint16_t));
  std::vector<float> found(6, 1);
  store.read<float>("floats", found);
  EXPECT_EQ(found, std::vector<float>(6));
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  store.write<float>("floats", floats);
  store.read<float>("floats", found);
  EXPECT_EQ(found, floats);
  const std::vector<float> few = {1, 2, 3, 4, 5};
  EXPECT_TRUE(has(message_of([&] { store.write<float>("floats", few); }), "6 elements, not 5"));
  const std::vector<int32_t> ints(6);
  EXPECT_TRUE(has(message_of([&] { store.write<int32_t>("floats", ints); }), "variable floats"));
  EXPECT_TRUE(has(message_of([&] { store.write<float>("none", floats); }), "variable none"));
  Graph other;
  variable(other, "floats", {{3, 3}});
  EXPECT_TRUE(has(message_of([&] { store.add(other); }), "2 x 3 and as f32 3 x 3"));
}

TEST(Variables, ConstantsHaveTheSizeOfTheirShape) {
  Graph graph;
  const std::vector<float> three(3);
  const auto fails = [&](const ValueType& type) {
    return message_of([&] { data(graph, type, std::span(three)); });
  };
  EXPECT_TRUE(has(fails({{1, 4}}), "takes 16 bytes, found 12"));
  EXPECT_TRUE(has(fails({{Symbol::kRows, 3}}), "[rows, 3]"));
  const Array fine = data(graph, {{3, 1}}, std::span(three));
  const Graph copy = graph;
  EXPECT_EQ(copy[fine.value()].data, graph[fine.value()].data);  // shared
}

class Updates : public testing::Test {
 protected:
  Updates() : w(variable(graph, "w", {{1, kColumns}})) {}
  void plan(const std::vector<Value>& roots, bool fused = false) {
    store.add(graph);
    RunBlock block(graph, 1);
    Plan made(graph, roots,
              {.places = {{.backend = backend.get(), .params = &params, .variables = &store}},
               .block = &block},
              {.fuse = fused});
  }
  Graph graph;
  Array w;
  ThreadPool pool{1};
  std::unique_ptr<Backend> backend = make_cpu_backend(pool, Target::kReference);
  ParamStore params;
  VariableStore store;
};

TEST_F(Updates, AreOrdered) {
  const Array updated = assign(scale(w, 2), w);
  EXPECT_NO_THROW(plan({updated.value(), scale(updated, 3).value()}));
  const Array late = scale(variable(graph, "w", {{1, kColumns}}), 3);
  EXPECT_TRUE(has(message_of([&] {
                    plan({updated.value(), late.value()});
                  }),
                  "scale: reads variable w after its update"));
  EXPECT_NO_THROW(plan({late.value()}));  // nothing updates it
}

TEST_F(Updates, WriteVariablesOnly) {
  const Array fixed = constant(graph, {1, kColumns}, 1);
  const Array written = assign(w, fixed);
  EXPECT_TRUE(has(message_of([&] { plan({written.value()}); }), "assign: writes data"));
  EXPECT_TRUE(has(message_of([&] {
                    assign(constant(graph, {1, 3}, 1), w);
                  }),
                  "the shape and type of the variable"));
}

// A linear that reads a variable stays before the update, even if its result is used later.
TEST_F(Updates, FusionKeepsReadsBeforeThem) {
  const Array weights = variable(graph, "weights", {{2, kColumns}});
  const Array y = linear(w, weights);
  const Array updated = assign(scale(weights, 2), weights);
  const Array z = scale(y, 0.5F);
  EXPECT_NO_THROW(plan({updated.value(), z.value()}, true));
  std::vector<Value> roots = {z.value()};
  Graph without;  // an update of another graph does not matter
  const Array same = variable(without, "weights", {{2, kColumns}});
  roots = {scale(linear(variable(without, "w", {{1, kColumns}}), same), 0.5F).value()};
  const Graph fused = fuse(without, roots);
  EXPECT_EQ(fused[roots[0]].op, op::kFusedLinear);
}

TEST_F(Updates, StayOnOneSideOfASplit) {
  const Array first = scale(w, 2).named("blk.0.out");
  const Array second = first * Array(graph, graph.leaf(op::kParam, "blk.1.weight", {1, kColumns}));
  const Array updated = assign(second, w);
  EXPECT_TRUE(has(message_of([&] { split(graph, {updated.value()}, 1); }), "variable w"));
}

}  // namespace
}  // namespace veery
