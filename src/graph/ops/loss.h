// loss.h: loss functions.
#pragma once
#include "graph/op.h"

namespace veery {

struct CrossEntropyIn {
  enum { kLogits, kTargets };
};
struct CrossEntropyBackIn {
  enum { kDy, kLogits, kTargets };
};

namespace op {
namespace detail {

inline Outputs cross_entropy(const OpContext& c) {
  c.require(c.shape(CrossEntropyIn::kLogits).rows() == c.shape(CrossEntropyIn::kTargets).rows(),
            "there must be one target a row");
  return Shape{1, 1};
}
inline Outputs cross_entropy_back(const OpContext& c) {
  return c.shape(CrossEntropyBackIn::kLogits);
}

}  // namespace detail

/// The mean over rows of -log softmax(logits)[target]: [1, 1]. Rows with target -1 are ignored.
inline constexpr OpDef kCrossEntropy{.name = "cross_entropy",
                                     .inputs = {"logits", "targets"},
                                     .outputs = {"loss"},
                                     .infer = detail::cross_entropy};
inline constexpr OpDef kCrossEntropyBack{.name = "cross_entropy_back",
                                         .group = OpGroup::kBackward,
                                         .inputs = {"dy", "logits", "targets"},
                                         .outputs = {"dlogits"},
                                         .infer = detail::cross_entropy_back};

inline constexpr Op kLosses[] = {kCrossEntropy, kCrossEntropyBack};

}  // namespace op
}  // namespace veery
