#include "model/trace.h"

#include "base/error.h"

namespace veery {

Array Trace::parameter(const std::string& name, const Shape& shape, const Attr& attr) {
  const std::string full = scope_ + name;
  const auto [entry, is_new] = leaves_.try_emplace(full, kNoNode);
  if (is_new) entry->second = graph_.leaf(op::kParam, full, shape, attr);
  const Array array(graph_, entry->second);
  if (array.shape() != shape)
    throw Error(ErrorKind::kBug, "trace: {} is asked for as {} and as {}", full,
                to_string(array.shape()), to_string(shape));
  return array;
}

Array Trace::slot(const std::string& name, Symbol rows) {
  const auto [entry, is_new] = leaves_.try_emplace("slot:" + name, kNoNode);
  if (is_new) entry->second = graph_.leaf(op::kSlot, name, {rows, 1});
  return {graph_, entry->second};
}

Array Trace::remember(const std::string& name, Array x, const StateAttr& attr) {
  x.named(scope_ + name);
  if (mode_ != TraceMode::kServe) return x;
  const Array state(graph_,
                    graph_.leaf(op::kState, scope_ + name + "_cache", {0, x.shape().cols()}, attr));
  return cache_write(x, state);
}

Array Trace::block(const std::string& name, const Shape& shape) {
  if (mode_ != TraceMode::kServe) return {};
  return {graph_, graph_.leaf(op::kState, scope_ + name, shape, StateAttr{StateKind::kBlock})};
}

Array Trace::select_outputs(Array x) {
  if (mode_ != TraceMode::kServe || x.shape().rows() == Dim(Symbol::kOutputs)) return x;
  return select_rows(x, slot("output_rows", Symbol::kOutputs));
}

}  // namespace veery
