// Functions of samples as functions of batches.
#include <map>
#include <utility>
#include <veery/tensor_transforms.hpp>

#include "tensor/transforms/pass_on.h"
#include "tensor/transforms/trace.h"

namespace veery::tensor {
namespace {

/// The tensors of a traced function that depend on the sample, with the batch as first dimension.
class Batched {
 public:
  Batched(const Trace& trace, int64_t size) : trace_(trace), size_(size) {}

  void set(const Tensor& traced, Tensor batched) {
    found_[{traced.node().get(), traced.output()}] = std::move(batched);
  }
  void apply(const Tensor& x) {
    const Node& node = *x.node();
    std::vector<Tensor> in;
    std::vector<bool> mapped;
    for (const Tensor& input : node.inputs) {
      mapped.push_back(trace_.depends(input));
      in.push_back(of(input));
    }
    const Batch batch(in, std::move(mapped), size_, node.inputs,
                      [this](const Tensor& t) { return trace_.depends(t); });
    const std::vector<Tensor> made = node.operation->batch(batch, node.specs);
    const std::vector<Tensor> out = outputs_of(x);
    for (size_t i = 0; i < out.size(); ++i) set(out[i], made[i]);
  }
  /// A tensor without a batch if it does not depend on the sample.
  const Tensor& of(const Tensor& x) const {
    return trace_.depends(x) ? found_.at({x.node().get(), x.output()}) : x;
  }
  Tensor with_batch(const Tensor& x) const {
    return trace_.depends(x) ? of(x) : broadcast_to(x, with_first(size_, x.shape()));
  }

 private:
  const Trace& trace_;
  int64_t size_;
  std::map<std::pair<const Node*, int>, Tensor> found_;
};

// The size of the batch.
int64_t batch_size(std::span<const Tensor> arguments, const MapAxes& axes) {
  std::optional<int64_t> size;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!axes[i]) continue;
    const int64_t found = arguments[i].shape()[static_cast<size_t>(*axes[i])];
    if (size.value_or(found) != found)
      fail(ErrorKind::kInput, "vmap: axis {} of argument {} has {} elements, expected {}", *axes[i],
           i, found, *size);
    size = found;
  }
  if (!size) fail(ErrorKind::kInput, "vmap: no argument is mapped");
  return *size;
}

// The axes counted from the front.
MapAxes map_axes(std::span<const Tensor> arguments, const MapAxes& given) {
  MapAxes axes = given;
  if (given.empty()) axes.assign(arguments.size(), 0);
  if (axes.size() != arguments.size())
    fail(ErrorKind::kInput, "vmap: {} axes for {} arguments", axes.size(), arguments.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    require("vmap", arguments[i]);
    if (axes[i]) axes[i] = axis_of("vmap", *axes[i], arguments[i].rank());
  }
  return axes;
}

Tensor placeholder_for(const Tensor& x, int axis) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + axis);
  Tensor made = make(Placeholder("vmap"), {}, {std::move(shape), x.dtype()});
  made.node()->device = &device_of(x);
  return made;
}

std::vector<Tensor> map(const Function& fn, std::span<const Tensor> arguments,
                        const MapAxes& in_axes, const std::vector<int>& out_axes) {
  const MapAxes axes = map_axes(arguments, in_axes);
  const int64_t size = batch_size(arguments, axes);
  const KeepInputs keep;
  std::vector<Tensor> given, samples;
  for (size_t i = 0; i < arguments.size(); ++i) {
    given.push_back(axes[i] ? placeholder_for(arguments[i], *axes[i]) : arguments[i]);
    if (axes[i]) samples.push_back(given.back());
  }
  const std::vector<Tensor> outputs = fn(given);
  for (const Tensor& y : outputs) require("vmap", y);
  if (!out_axes.empty() && out_axes.size() != outputs.size())
    fail(ErrorKind::kInput, "vmap: {} axes for {} outputs", out_axes.size(), outputs.size());
  const Trace trace(samples, outputs, Trace::Of::kValues);
  Batched batched(trace, size);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (axes[i]) batched.set(given[i], moveaxis(arguments[i], *axes[i], 0));
  for (const Tensor& x : trace.order()) batched.apply(x);
  std::vector<Tensor> result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor y = batched.with_batch(outputs[i]);
    result.push_back(out_axes.empty() ? y : moveaxis(y, 0, out_axes[i]));
  }
  return result;
}

}  // namespace

Function vmap(Function fn, MapAxes in_axes, std::vector<int> out_axes) {
  return [fn = std::move(fn), in_axes = std::move(in_axes), out_axes = std::move(out_axes)](
             std::span<const Tensor> arguments) { return map(fn, arguments, in_axes, out_axes); };
}

}  // namespace veery::tensor
