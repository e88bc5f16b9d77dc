// tensors.cc: checks that all tensors that the definition requires exist, and no others.
#include <fmt/format.h>

#include "base/error.h"
#include "base/printable.h"
#include "import/folder/folder_config.h"
#include "import/unused_tensors.h"
#include "verify/parts.h"

namespace veery {
namespace {

std::string wanted_text(const Node& node) {
  const Shape& shape = node.shape();
  return shape.rows() == Dim(1) ? fmt::format("{}", shape.cols())
                                : fmt::format("{} x {}", shape.rows().size, shape.cols());
}

bool is_turned(const TensorView& tensor, const Node& node) {
  return tensor.shape.size() == 2 && tensor.shape[0] == node.shape().cols() &&
         Dim(tensor.shape[1]) == node.shape().rows();
}

// Returns whether no tensor is missing.
bool check_presence(const ModelFile& file, const Graph& graph,
                    const std::vector<std::string>& unused, Report& report) {
  std::vector<std::string> missing;
  std::vector<std::string> misfits;
  bool turned = false;
  int64_t needed = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != op::kParam) continue;
    ++needed;
    const TensorView* tensor = file.find(node.name);
    if (tensor == nullptr) {
      missing.push_back(fmt::format("{} ({})", node.name, wanted_text(node)));
    } else if (!has_shape(*tensor, node)) {
      turned = turned || is_turned(*tensor, node);
      misfits.push_back(
          fmt::format("{} is {}, not {}", node.name, shape_text(tensor->shape), wanted_text(node)));
    } else if (!info(tensor->dtype).decodable) {
      misfits.push_back(fmt::format("{} has type {}", node.name, info(tensor->dtype).name));
    }
  }
  if (missing.empty()) {
    report.ok("tensors", fmt::format("all {} required tensors are present", needed));
  } else {
    report.add({"tensors", CheckState::kFail, fmt::format("missing: {}", some_of(missing)),
                fmt::format("{} tensors", needed),
                unused.empty()
                    ? "the file is truncated, or the configuration belongs to another model"
                    : fmt::format("unused: {}", some_of(unused))});
  }
  if (misfits.empty())
    report.ok("shapes", "as configured");
  else
    report.add({"shapes", CheckState::kFail, some_of(misfits), "the shapes of the configuration",
                turned ? "a matrix is transposed: weights are (out, in)"
                       : "the configuration belongs to another model"});
  return missing.empty();
}

void check_left_over(const ModelFile& file, const TransformerConfig& config,
                     const UnusedTensors& unused, Report& report) {
  const bool head =
      file.container == Container::kFolder && !config.output.tied && says_tied_head(file) == true;
  if (head)
    report.add({"tied head", CheckState::kWarn,
                "the configuration says that the output head is the embedding, but the file has "
                "another one, which is used",
                "tie_word_embeddings: false", "other programs may use the embedding"});
  if (!unused.beyond.empty())
    report.add({"layers", CheckState::kFail,
                fmt::format("{} beyond the last layer: {} is {}", some_of(unused.beyond),
                            layers_key(file, config), config.layers),
                fmt::format("layers 0 to {}", config.layers - 1),
                "the number of layers is too small, or tensors of another model were added"});
  if (!unused.unknown.empty())
    report.add({"unused tensors", CheckState::kWarn, some_of(unused.unknown), "no such tensors",
                "unknown to the model definition: the results may be wrong"});
  if (!head && unused.beyond.empty() && unused.unknown.empty())
    report.ok("unused tensors",
              unused.other_parts.empty()
                  ? "none"
                  : fmt::format("{} tensors of other parts", unused.other_parts.size()));
}

// Checks the biases, norms and gates that the architecture requires, allows or lacks.
void check_optional_parts(const ModelFile& file, const TransformerConfig& config, Report& report) {
  try {
    refuse_wrong_weights(file, config);
    report.ok("optional parts", "as the architecture requires");
  } catch (const Error& error) {
    report.add({"optional parts", CheckState::kFail, error.what(),
                fmt::format("the parts of a {} model", config.architecture),
                "a bias or norm was lost or added; the model is refused"});
  }
}

}  // namespace

void check_tensors(const ModelFile& file, const TransformerConfig& config, const Graph& graph,
                   Report& report) {
  const UnusedTensors unused = unused_tensors(file, config, graph);
  check_left_over(file, config, unused, report);
  if (check_presence(file, graph, unused.unknown, report))
    check_optional_parts(file, config, report);
}

}  // namespace veery
