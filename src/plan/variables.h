// variables.h: the memory of variables: arrays that keep their elements between runs.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "device/host_device.h"
#include "graph/graph.h"
#include "plan/run_block.h"

namespace veery {

/// The variables of graphs (op::kVariable) on one device. Graphs share those of equal names. Must
/// outlive the plans that are bound to it. Not thread-safe; the host reads and writes between runs.
class VariableStore {
 public:
  /// `device` provides the memory and must outlive the store.
  explicit VariableStore(Device& device = host_device()) : device_(&device) {}

  /// Adds the variables of a graph that are not there yet, with zeros. Throws kInput naming one
  /// that is declared with two types, kLimit if the device has too little memory.
  void add(const Graph& graph);

  /// Writes all elements, row by row: T is int32_t, float, uint8_t, or uint16_t for the bits of f16
  /// and bf16. Throws kBug if there is no such variable, or if it has elements of another type or
  /// another number of them.
  template <typename T>
  void write(std::string_view name, std::span<const T> elements) {
    const Operand& variable = checked(name, {sizeof(T), std::is_integral_v<T>}, elements.size());
    device_->upload(variable.data, elements.data(), elements.size_bytes());
  }
  /// Reads all elements. Throws as write() does.
  template <typename T>
  void read(std::string_view name, std::span<T> elements) const {
    const Operand& variable = checked(name, {sizeof(T), std::is_integral_v<T>}, elements.size());
    device_->download(elements.data(), variable.data, elements.size_bytes());
  }

  /// Throws kBug naming the variable if it is absent.
  const Operand& at(std::string_view name) const;
  size_t bytes() const { return bytes_; }

 private:
  const Operand& checked(std::string_view name, const HostType& type, size_t elements) const;

  Device* device_;
  std::map<std::string, Operand, std::less<>> operands_;
  std::vector<Memory> memory_;
  size_t bytes_ = 0;
};

}  // namespace veery
