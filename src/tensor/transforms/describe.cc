// Text about what an evaluation computes.
#include <algorithm>
#include <map>
#include <utility>
#include <veery/tensor_transforms.hpp>

#include "tensor/async.h"
#include "tensor/elementwise.h"
#include "tensor/evaluate.h"
#include "tensor/views.h"

namespace veery::tensor {
namespace {

std::string text(const Spec& spec) {
  return fmt::format("{} {}", name(spec.dtype), tensor::text(spec.shape));
}

std::string text(const Scalar& value) {
  if (value.kind() == Scalar::Kind::kFloat) return fmt::format("{}", value.real());
  return fmt::format("{}", value.integer());
}

struct Line {
  std::string kind, result, computes, reads;
};

/// Names results by numbers, in the order of computation.
class Describer {
 public:
  Line line(const ElementGroup& group) {
    Line line{.kind = "pass"};
    words_.clear();
    std::vector<const Node*> names;
    for (const Node* member : group.members) {
      add_word(line.computes, member->operation->name());
      names.push_back(member);
    }
    for (const Node* member : group.members) read(line, *member, names);
    if (group.reduction != nullptr) {
      const auto& reduce = static_cast<const Reduce&>(*group.reduction->operation);
      add_word(line.computes,
               fmt::format("{} over {}", reduce.name(),
                           tensor::text(Shape(reduce.axes().begin(), reduce.axes().end()))));
    }
    for (const Node* member : group.results) add_result(line, *member);
    if (group.reduction != nullptr) add_result(line, *group.reduction);
    return line;
  }
  Line line(const Node& node) {
    words_.clear();
    const bool is_view = dynamic_cast<const View*>(node.operation.get()) != nullptr;
    Line line{.kind = is_view ? "view" : "op", .computes = std::string(node.operation->name())};
    if (const auto* reduce = dynamic_cast<const Reduce*>(node.operation.get()))
      line.computes += fmt::format(
          " over {}", tensor::text(Shape(reduce->axes().begin(), reduce->axes().end())));
    read(line, node, {});
    add_result(line, node);
    return line;
  }

 private:
  static void add_word(std::string& to, std::string_view word) {
    if (!to.empty()) to += ", ";
    to += word;
  }
  void add_result(Line& line, const Node& node) {
    for (size_t i = 0; i < node.specs.size(); ++i) {
      const size_t number = numbers_.size();
      numbers_[{&node, static_cast<int>(i)}] = number;
      add_word(line.result, fmt::format("%{} {}", number, text(node.specs[i])));
    }
  }
  // Adds the inputs of a node but those of `members` and those that are there already.
  void read(Line& line, const Node& node, const std::vector<const Node*>& members) {
    for (const Tensor& input : node.inputs) {
      if (std::find(members.begin(), members.end(), input.node().get()) != members.end()) continue;
      const auto known = numbers_.find({input.node().get(), input.output()});
      const Scalar* value = constant_value(input);
      std::string word;
      if (known != numbers_.end())
        word = fmt::format("%{}", known->second);
      else if (value != nullptr)
        word = text(*value);
      else
        word = fmt::format("{} {}", leaf(input), text(spec(input)));
      if (std::find(words_.begin(), words_.end(), word) == words_.end()) {
        words_.push_back(word);
        add_word(line.reads, word);
      }
    }
  }
  std::string leaf(const Tensor& x) {
    const auto [at, is_new] = leaves_.insert({{x.node().get(), x.output()}, leaves_.size()});
    return fmt::format("${}", at->second);
  }

  std::map<std::pair<const Node*, int>, size_t> numbers_, leaves_;
  std::vector<std::string> words_;  ///< of the line
};

}  // namespace

std::string describe(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors) require("describe", x);
  wait_for_jobs();
  const Evaluation evaluation(tensors);
  Describer describer;
  std::vector<Line> lines{{"kind", "results", "computes", "reads"}};
  for (const auto& [group, node] : evaluation.steps())
    lines.push_back(group != nullptr ? describer.line(*group) : describer.line(*node));
  size_t results = 0, computes = 0;
  for (const Line& line : lines) {
    results = std::max(results, line.result.size());
    computes = std::max(computes, line.computes.size());
  }
  std::string table;
  for (const Line& line : lines) {
    std::string row = fmt::format("{:<6}{:<{}}  {:<{}}  {}", line.kind, line.result, results,
                                  line.computes, computes, line.reads);
    row.erase(row.find_last_not_of(' ') + 1);
    table += row + "\n";
  }
  return table;
}

}  // namespace veery::tensor
