#include "text/jinja/value/budget.h"

#include <algorithm>
#include <utility>

namespace veery::jinja {

Budget*& current_budget() {
  thread_local Budget* budget = nullptr;
  return budget;
}

void Builder::append(size_t count, char c) {
  if (text_.size() + count > capacity_) grow(count);
  text_.append(count, c);
}

void Builder::grow(size_t more) {
  const size_t wanted = std::max({text_.size() + more, capacity_ * 2, size_t{63}});
  charge_.resize(wanted);
  spend_copy(wanted);
  text_.reserve(wanted);
  capacity_ = wanted;
}

std::string Builder::take() {
  charge_.resize(0);
  capacity_ = 15;
  return std::exchange(text_, {});
}

}  // namespace veery::jinja
