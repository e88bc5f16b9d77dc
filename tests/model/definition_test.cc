// Model definitions trace to valid graphs for inference and for training.
#include <gtest/gtest.h>

#include "model/arch/registry.h"

namespace veery {
namespace {

TEST(Definition, TrainingTraceHasNoState) {
  TransformerConfig c;
  c.vocab = 32;
  c.dim = 16;
  c.feed_forward.hidden = 24;
  c.layers = 2;
  c.attention.heads = 4;
  c.attention.kv_heads = 2;
  c.attention.head_dim = 4;
  c.positions.rope.dims = 4;
  c.attention.scale = 0.5F;
  c.output.tied = true;
  for (TraceMode mode : {TraceMode::kServe, TraceMode::kTrain}) {
    Graph graph;
    Trace t(graph, mode, Weights(weight_rules("llama")));
    const Array logits = find_architecture("llama").define(t, c);
    EXPECT_EQ(logits.shape().cols(), 32);
    int states = 0;
    for (const Node& node : graph.nodes()) states += node.op == op::kState;
    EXPECT_EQ(states, mode == TraceMode::kServe ? 4 : 0);
    EXPECT_NO_THROW(verify(graph));
  }
}

}  // namespace
}  // namespace veery
