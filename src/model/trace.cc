#include "model/trace.h"

#include "base/error.h"

namespace veery {

Array Trace::parameter(const std::string& name, const Shape& shape, const Attr& attr) {
  const std::string full = scope_ + name;
  const auto [entry, is_new] = leaves_.try_emplace(full, kNoNode);
  if (is_new) {
    weights_.require(full);
    entry->second = graph_.leaf(op::kParam, full, shape, attr);
  }
  const Array array(graph_, entry->second);
  if (array.shape() != shape)
    throw Error(ErrorKind::kBug, "trace: {} has shape {}, but is requested as {}", full,
                to_string(array.shape()), to_string(shape));
  return array;
}

Array Trace::input(const std::string& name, const Shape& shape, const InputAttr& attr) {
  const auto [entry, is_new] = leaves_.try_emplace("input:" + name, kNoNode);
  if (is_new) entry->second = graph_.leaf(op::kInput, name, shape, attr);
  return {graph_, entry->second};
}

Array Trace::cached(const std::string& name, Array x, const StateAttr& attr) {
  this->name(name, x);
  if (mode_ != TraceMode::kServe) return x;
  const Array state(graph_,
                    graph_.leaf(op::kState, scope_ + name + "_cache", {0, x.shape().cols()}, attr));
  return cache_write(x, state);
}

// Writers and readers of a state share one leaf.
Array Trace::source_state(const std::string& name, int64_t columns, const StateAttr& attr) {
  if (mode_ != TraceMode::kServe)
    throw Error(ErrorKind::kUnsupported,
                "a decoder with cross-attention can only be traced for serving");
  const auto [entry, is_new] = leaves_.try_emplace("state:" + scope_ + name, kNoNode);
  if (is_new)
    entry->second = graph_.leaf(op::kState, scope_ + name + "_source", {0, columns}, attr);
  return {graph_, entry->second};
}

Array Trace::encoder_writes(const std::string& name, Array x, const StateAttr& attr) {
  return cache_write(this->name(name, x), source_state(name, x.shape().cols(), attr));
}

Array Trace::decoder_reads(const std::string& name, int64_t columns, const StateAttr& attr) {
  return source_state(name, columns, attr);
}

Array Trace::recurrent_state(const std::string& name, const Shape& shape) {
  if (mode_ != TraceMode::kServe) return {};
  return {graph_, graph_.leaf(op::kState, scope_ + name, shape, StateAttr{StateKind::kBlock})};
}

Array Trace::select_outputs(Array x) {
  if (mode_ != TraceMode::kServe || x.shape().rows() == Dim(Symbol::kOutputs)) return x;
  return select_rows(x, indices("output_rows", Symbol::kOutputs, Advance::kSame));
}

}  // namespace veery
