// Options of the C API: structures of older and later headers, and sampling parameters.
#include <gtest/gtest.h>
#include <veery/veery.h>

#include <cmath>
#include <cstring>
#include <veery/veery.hpp>

#include "capi/generate_options.h"
#include "sample/parameters.h"
#include "support/tiny_model.h"

namespace veery {
namespace {

using Ids = std::vector<int32_t>;

class CApiOptions : public ::testing::Test {
 protected:
  c::Model load() const {
    veery_load_options options = c::load_options();
    options.threads = 1;
    return c::Model(file_.path(), &options);
  }
  test::TinyModel file_;
};

veery_generate_options one_token(const c::Model& model) {
  veery_generate_options options = model.generate_options();
  options.max_tokens = 1;
  options.temperature = 0;
  options.ignore_eos = 1;
  return options;
}

void expect_failure(veery_status got, veery_status expected, const std::string& part) {
  EXPECT_EQ(got, expected) << veery_last_message();
  EXPECT_NE(std::string(veery_last_message()).find(part), std::string::npos)
      << veery_last_message() << "\nexpected: " << part;
}

/// A structure at the front of a larger one, as of a client with a later header.
template <typename T>
struct Later {
  T known;
  uint64_t added[2] = {};
};

TEST_F(CApiOptions, OptionsOfAnOlderHeaderHaveDefaultsForTheRest) {
  const c::Model model = load();
  veery_generate_options options{};
  constexpr size_t size = offsetof(veery_generate_options, frequency_penalty);
  static_assert(size % alignof(veery_generate_options) == 0);
  std::memset(static_cast<void*>(&options), 0xAA, sizeof options);  // not the client's memory
  ASSERT_EQ(veery_generate_options_init(&options, size, model.get()), VEERY_OK);
  EXPECT_EQ(options.size, size);
  EXPECT_EQ(reinterpret_cast<const unsigned char*>(&options)[size], 0xAA);
  options.max_tokens = 12;
  options.temperature = 1;
  options.seed = 5;
  const Ids prompt = {256, 104, 105, 32};
  veery_generate_options whole = model.generate_options();
  whole.max_tokens = 12;
  whole.temperature = 1;
  whole.seed = 5;
  EXPECT_EQ(model.start(prompt, &options).wait().ids(), model.start(prompt, &whole).wait().ids());
  options.top_p = 2;
  veery_answer* none = nullptr;
  expect_failure(veery_start(model.get(), prompt.data(), 4, &options, &none), VEERY_ERROR_INPUT,
                 "top_p is 2");
  veery_model_info info{};
  info.size = offsetof(veery_model_info, parameters);
  info.parameters = -7;
  ASSERT_EQ(veery_model_get_info(model.get(), &info), VEERY_OK);
  EXPECT_EQ(info.vocab, 259);
  EXPECT_EQ(info.size, offsetof(veery_model_info, parameters));
  EXPECT_EQ(info.parameters, -7);
}

TEST_F(CApiOptions, OptionsOfALaterHeaderMayNotSetWhatIsNotKnown) {
  const c::Model model = load();
  Later<veery_generate_options> options;
  options.added[1] = 7;
  ASSERT_EQ(veery_generate_options_init(&options.known, sizeof options, model.get()), VEERY_OK);
  EXPECT_EQ(options.known.size, sizeof options);
  EXPECT_EQ(options.added[1], 0U);
  options.known.max_tokens = 2;
  const Ids prompt = {256, 104};
  EXPECT_LE(model.start(prompt, &options.known).wait().ids().size(), 2U);
  options.added[1] = 1;
  veery_answer* none = nullptr;
  expect_failure(veery_start(model.get(), prompt.data(), 2, &options.known, &none),
                 VEERY_ERROR_UNSUPPORTED, "leave members of later versions 0");
  EXPECT_EQ(none, nullptr);
  Later<veery_model_info> info;
  info.known.size = sizeof info;
  info.added[0] = 7;
  ASSERT_EQ(veery_model_get_info(model.get(), &info.known), VEERY_OK);
  EXPECT_EQ(info.known.vocab, 259);
  EXPECT_EQ(info.added[0], 0U);
}

TEST_F(CApiOptions, SizesThatNoHeaderHasAreRefused) {
  const c::Model model = load();
  veery_usage usage{};
  veery_generate_options options = model.generate_options();
  const int32_t id = 3;
  veery_answer* none = nullptr;
  for (const size_t size :
       {size_t{0}, size_t{8}, size_t{17}, sizeof options - 1, size_t{1} << 20, SIZE_MAX}) {
    options.size = size;
    expect_failure(veery_start(model.get(), &id, 1, &options, &none), VEERY_ERROR_INPUT,
                   "veery_generate_options: its size is " + std::to_string(size));
  }
  options = one_token(model);
  const c::Answer answer = std::move(model.start({3}, &options).wait());
  for (const size_t size : {size_t{0}, sizeof usage + 1}) {
    usage.size = size;
    expect_failure(veery_answer_get_usage(answer.get(), &usage), VEERY_ERROR_INPUT, "veery_usage");
  }
}

TEST_F(CApiOptions, CacheBytesAreALimitOnlyIfTheyAreSet) {
  veery_load_options options = c::load_options();
  EXPECT_EQ(options.cache_bytes, 0U);
  options.threads = 1;
  options.cache_bytes = 1;
  veery_model* none = nullptr;
  EXPECT_EQ(veery_model_load(file_.path().c_str(), &options, &none), VEERY_ERROR_LIMIT);
  EXPECT_EQ(none, nullptr);
  options.cache_bytes = uint64_t{1} << 24;
  EXPECT_NO_THROW(c::Model(file_.path(), &options));
}

// Numbers just outside of a parameter's range.
std::vector<double> outside(const SamplingParameter& row) {
  std::vector<double> values = {row.low - 1, row.high * 2 + 1, NAN};
  if (row.whole != nullptr) values.push_back(row.low + 0.5);
  if (row.step > 1) values.push_back(row.low + 1);
  return values;
}

TEST_F(CApiOptions, EachSamplingParameterIsSetByNameAndRangeChecked) {
  const c::Model model = load();
  for (const SamplingParameter& row : sampling_parameters()) {
    veery_generate_options options = one_token(model);
    const std::string name(row.name);
    veery_parameter parameter{name.c_str(), 0};
    options.parameters = &parameter;
    options.parameter_count = 1;
    for (const double value : {row.low, row.high, row.get()}) {
      parameter.value = value;
      EXPECT_EQ(model.start({3}, &options).wait().ids().size(), 1U) << name << " " << value;
    }
    for (const double value : outside(row)) {
      parameter.value = value;
      veery_answer* none = nullptr;
      const int32_t id = 3;
      expect_failure(veery_start(model.get(), &id, 1, &options, &none), VEERY_ERROR_INPUT,
                     "veery_generate_options: " + name + " is ");
      EXPECT_NE(std::string(veery_last_message()).find("expected " + row.expected()),
                std::string::npos);
    }
  }
  veery_generate_options options = one_token(model);
  veery_parameter parameter{"warmth", 1};
  options.parameters = &parameter;
  options.parameter_count = 1;
  const int32_t id = 3;
  veery_answer* none = nullptr;
  expect_failure(veery_start(model.get(), &id, 1, &options, &none), VEERY_ERROR_INPUT,
                 "parameters[0] is 'warmth'");
  parameter.name = nullptr;
  expect_failure(veery_start(model.get(), &id, 1, &options, &none), VEERY_ERROR_INPUT, "is null");
}

TEST_F(CApiOptions, MembersOfSamplingParametersHaveTheirDefaultsAndRanges) {
  const c::Model model = load();
  const veery_generate_options defaults = capi::default_generate_options(nullptr);
  for (const capi::ParameterMember& member : capi::parameter_members()) {
    const SamplingParameter* row = find_sampling_parameter(member.name);
    ASSERT_NE(row, nullptr) << member.name;
    ASSERT_EQ(row->real == nullptr, member.real == nullptr) << member.name;
    if (member.real != nullptr)
      EXPECT_EQ(defaults.*member.real, row->get()) << member.name;
    else
      EXPECT_EQ(defaults.*member.whole, row->get()) << member.name;
    for (const double value : {row->low, row->high}) {
      veery_generate_options options = one_token(model);
      if (member.real != nullptr)
        options.*member.real = static_cast<float>(value);
      else
        options.*member.whole = static_cast<int32_t>(value);
      EXPECT_EQ(model.start({3}, &options).wait().ids().size(), 1U) << member.name << " " << value;
    }
    for (const double value : outside(*row)) {
      veery_generate_options options = one_token(model);
      if (member.real != nullptr)
        options.*member.real = static_cast<float>(value);
      else if (value == std::floor(value) && std::abs(value) < INT32_MAX)
        options.*member.whole = static_cast<int32_t>(value);
      else
        continue;  // not an int32_t
      veery_answer* none = nullptr;
      const int32_t id = 3;
      expect_failure(veery_start(model.get(), &id, 1, &options, &none), VEERY_ERROR_INPUT,
                     "veery_generate_options: " + std::string(member.name) + " is ");
    }
  }
}

}  // namespace
}  // namespace veery
