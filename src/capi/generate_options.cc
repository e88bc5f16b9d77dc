#include "capi/generate_options.h"

#include <cmath>

#include "base/json.h"
#include "base/printable.h"
#include "capi/structures.h"
#include "engine/sequence_breakers.h"
#include "sample/parameters.h"

namespace veery::capi {
namespace {

using Given = veery_generate_options;

constexpr const char* kName = "veery_generate_options";

// Later sampling parameters need no member and no row: callers set them by name.
constexpr ParameterMember kMembers[] = {
    {"temperature", &Given::temperature},
    {"top_p", &Given::top_p},
    {"min_p", &Given::min_p},
    {"typical_p", &Given::typical_p},
    {"top_n_sigma", &Given::top_n_sigma},
    {"repeat_penalty", &Given::repeat_penalty},
    {"frequency_penalty", &Given::frequency_penalty},
    {"presence_penalty", &Given::presence_penalty},
    {"dynatemp_range", &Given::dynatemp_range},
    {"dynatemp_exponent", &Given::dynatemp_exponent},
    {"xtc_probability", &Given::xtc_probability},
    {"xtc_threshold", &Given::xtc_threshold},
    {"dry_multiplier", &Given::dry_multiplier},
    {"dry_base", &Given::dry_base},
    {"mirostat_tau", &Given::mirostat_tau},
    {"mirostat_eta", &Given::mirostat_eta},
    {"top_k", nullptr, &Given::top_k},
    {"repeat_last_n", nullptr, &Given::repeat_last_n},
    {"dry_allowed_length", nullptr, &Given::dry_allowed_length},
    {"dry_last_n", nullptr, &Given::dry_last_n},
    {"mirostat", nullptr, &Given::mirostat},
};

const SamplingParameter& parameter_of(const ParameterMember& member) {
  const SamplingParameter* found = find_sampling_parameter(member.name);
  VEERY_CHECK(found != nullptr);
  return *found;
}

void set_parameter(const SamplingParameter& parameter, double value, SamplerOptions& sampling) {
  if (!parameter.accepts(value))
    throw Error(ErrorKind::kInput, "{}: {} is {}, expected {}", kName, parameter.name,
                parameter.text(value), parameter.expected());
  parameter.set(sampling, value);
}

double value_of(const ParameterMember& member, const Given& given) {
  if (member.real != nullptr) return given.*member.real;
  return given.*member.whole;  // not in a conditional expression, which would round it to float
}

void read_parameters(const Given& given, SamplerOptions& sampling) {
  for (const ParameterMember& member : kMembers)
    set_parameter(parameter_of(member), value_of(member, given), sampling);
  if (given.parameter_count > 0) required(given.parameters, "veery_generate_options: parameters");
  for (size_t i = 0; i < given.parameter_count; ++i) {
    const veery_parameter& one = given.parameters[i];
    const std::string name = required_text(one.name, "veery_generate_options: name of a parameter");
    const SamplingParameter* parameter = find_sampling_parameter(name);
    if (parameter == nullptr)
      throw Error(ErrorKind::kInput,
                  "{}: parameters[{}] is '{}', expected the name of a sampling "
                  "parameter, such as min_p",
                  kName, i, printable(name, 40));
    set_parameter(*parameter, one.value, sampling);
  }
}

void add_bias(const Given& given, const LoadedModel& model, SamplerOptions& sampling) {
  if (given.bias_count > 0) required(given.bias, "veery_generate_options: bias");
  const int64_t vocab = model.model().config().vocab;
  for (size_t i = 0; i < given.bias_count; ++i) {
    const veery_bias& bias = given.bias[i];
    if (bias.id < 0 || bias.id >= vocab || !(std::abs(bias.value) <= kMostBias))
      throw Error(ErrorKind::kInput,
                  "{}: bias[{}] is {} for token {}, expected -{} to {} for a token of 0 to {}",
                  kName, i, bias.value, bias.id, kMostBias, kMostBias, vocab - 1);
    sampling.bias.push_back({bias.id, bias.value});
  }
}

void read_grammar(const Given& given, LoadedModel& model, GenerateRequest& request) {
  const int forms =
      (given.json_schema != nullptr) + (given.regex != nullptr) + (given.grammar != nullptr);
  if (forms > 1)
    throw Error(ErrorKind::kInput,
                "{}: found {} of json_schema, regex and grammar, expected one at most", kName,
                forms);
  if (given.json_schema != nullptr)
    request.grammar = model.grammars().json_schema(parse_json(given.json_schema, "json_schema"));
  if (given.regex != nullptr) request.grammar = model.grammars().regex(given.regex);
  if (given.grammar != nullptr) request.grammar = model.grammars().ebnf(given.grammar);
}

}  // namespace

std::span<const ParameterMember> parameter_members() { return kMembers; }

veery_generate_options default_generate_options(const LoadedModel* model) {
  SamplerOptions sampling;
  if (model != nullptr) sampling = recommended_sampling(model->model().file().metadata);
  Given result{};
  result.size = sizeof result;
  result.max_tokens = -1;
  for (const ParameterMember& member : kMembers) {
    const double value = parameter_of(member).get(sampling);
    if (member.real != nullptr)
      result.*member.real = static_cast<float>(value);
    else
      result.*member.whole = static_cast<int32_t>(value);
  }
  result.logprobs = -1;
  return result;
}

veery_generate_options generate_options_or(const LoadedModel& model, const Given* given) {
  return options_or(given, default_generate_options(&model), kName);
}

GenerateRequest make_request(LoadedModel& model, std::vector<int32_t> ids, const Given& given) {
  if (given.logprobs < -1 || given.logprobs > 1000)
    throw Error(ErrorKind::kInput, "{}: logprobs is {}, expected -1 to 1000", kName,
                given.logprobs);
  GenerateOptions options;
  // The file may recommend parameters that have no member.
  options.sampling = recommended_sampling(model.model().file().metadata);
  SamplerOptions& sampling = options.sampling;
  read_parameters(given, sampling);
  sampling.seed = given.seed;
  if (sampling.dry_multiplier > 0)
    sampling.dry_breakers = sequence_breakers(
        model.model().tokenizer(), model.model().config().vocab, usual_sequence_breakers());
  add_bias(given, model, sampling);
  if (given.max_tokens >= 0) options.max_tokens = given.max_tokens;
  options.stops = texts_of(given.stops, given.stop_count, "veery_generate_options: stops");
  options.ignore_eos = given.ignore_eos != 0;
  GenerateRequest request{std::move(ids), std::move(options)};
  request.logprobs = given.logprobs;
  request.priority = given.priority;
  read_grammar(given, model, request);
  return request;
}

}  // namespace veery::capi
