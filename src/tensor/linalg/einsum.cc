// Sums of products by index labels.
#include <algorithm>
#include <map>
#include <string>
#include <veery/tensor_linalg.hpp>

#include "tensor/node.h"

namespace veery::tensor {
namespace {

/// A tensor with a label for each dimension, no label twice.
struct Term {
  Tensor x;
  std::string labels;
};

bool has(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}

// Labels that occur twice select the diagonal.
Term diagonal(const Tensor& x, const std::string& labels) {
  Term term{x, {}};
  Shape shape;
  Strides strides;
  const Strides all = contiguous_strides(x.shape());
  for (size_t i = 0; i < labels.size(); ++i) {
    const size_t at = term.labels.find(labels[i]);
    if (at == std::string::npos) {
      term.labels += labels[i];
      shape.push_back(x.shape()[i]);
      strides.push_back(all[i]);
    } else {
      strides[at] += all[i];
    }
  }
  if (term.labels.size() < labels.size()) term.x = as_strided(x, shape, strides);
  return term;
}

// Sums the dimensions whose labels are not in `kept`.
Term summed(const Term& term, std::string_view kept) {
  Axes axes;
  std::string labels;
  for (size_t i = 0; i < term.labels.size(); ++i)
    if (has(kept, term.labels[i]))
      labels += term.labels[i];
    else
      axes.push_back(static_cast<int>(i));
  return {axes.empty() ? term.x : sum(term.x, axes), labels};
}

Tensor ordered(const Term& term, std::string_view labels) {
  Axes order;
  for (const char label : labels) order.push_back(static_cast<int>(term.labels.find(label)));
  return order.empty() ? term.x : transpose(term.x, order);
}

// Sums the products of two terms over their common labels that are not in `kept`, as one product of
// matrices for each index of the common ones that are.
Term product(const Term& a, const Term& b, std::string_view kept,
             const std::map<char, int64_t>& sizes) {
  const Term x = summed(a, std::string(kept) + b.labels);
  const Term y = summed(b, std::string(kept) + a.labels);
  std::string batch, inner, rows, columns;
  for (const char label : x.labels)
    (!has(y.labels, label) ? rows : has(kept, label) ? batch : inner) += label;
  for (const char label : y.labels)
    if (!has(x.labels, label)) columns += label;
  const auto count = [&](std::string_view labels) {
    int64_t size = 1;
    for (const char label : labels) size *= sizes.at(label);
    return size;
  };
  const Tensor left =
      reshape(ordered(x, batch + rows + inner), {count(batch), count(rows), count(inner)});
  const Tensor right =
      reshape(ordered(y, batch + inner + columns), {count(batch), count(inner), count(columns)});
  const std::string labels = batch + rows + columns;
  Shape shape;
  for (const char label : labels) shape.push_back(sizes.at(label));
  return {reshape(matmul(left, right), shape), labels};
}

struct Formula {
  std::vector<std::string> terms;
  std::string result;
};

Formula parsed(std::string_view text) {
  Formula formula;
  std::string labels(text);
  std::erase(labels, ' ');
  const size_t arrow = labels.find("->");
  const std::string left = labels.substr(0, arrow);
  formula.terms.emplace_back();
  for (const char c : left)
    if (c == ',')
      formula.terms.emplace_back();
    else
      formula.terms.back() += c;
  if (arrow != std::string::npos) {
    formula.result = labels.substr(arrow + 2);
  } else {
    for (const char c : left)
      if (c != ',' && std::ranges::count(left, c) == 1) formula.result += c;
    std::ranges::sort(formula.result);
  }
  for (const char c : left + formula.result)
    if (c != ',' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'))
      fail(ErrorKind::kInput, "einsum: '{}' in \"{}\", expected letters", c, text);
  for (const char c : formula.result)
    if (!has(left, c) || std::ranges::count(formula.result, c) > 1)
      fail(ErrorKind::kInput,
           "einsum: label '{}' of the result of \"{}\", expected once and in an operand", c, text);
  return formula;
}

}  // namespace

Tensor einsum(std::string_view formula, std::span<const Tensor> operands) {
  const auto [terms, result] = parsed(formula);
  if (terms.size() != operands.size())
    fail(ErrorKind::kInput, "einsum: {} operands for \"{}\"", operands.size(), formula);
  std::map<char, int64_t> sizes;
  std::vector<Term> all;
  for (size_t i = 0; i < terms.size(); ++i) {
    require("einsum", operands[i]);
    if (terms[i].size() != operands[i].shape().size())
      fail(ErrorKind::kInput, "einsum: \"{}\" for an operand of shape {}", terms[i],
           text(operands[i].shape()));
    for (size_t d = 0; d < terms[i].size(); ++d) {
      const int64_t size = operands[i].shape()[d];
      const auto [at, is_new] = sizes.insert({terms[i][d], size});
      if (at->second != size)
        fail(ErrorKind::kInput, "einsum: label '{}' of \"{}\" has the sizes {} and {}", terms[i][d],
             formula, at->second, size);
    }
    all.push_back(diagonal(operands[i], terms[i]));
  }
  Term term = all[0];
  for (size_t i = 1; i < all.size(); ++i) {
    std::string kept = result;
    for (size_t k = i + 1; k < all.size(); ++k) kept += all[k].labels;
    term = product(term, all[i], kept, sizes);
  }
  return ordered(summed(term, result), result);
}

}  // namespace veery::tensor
