#include "engine/speech/window_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace veery {
namespace {

// log(sum(exp(x))) of some logits, of which -infinity are none.
double log_sum(std::span<const float> x) {
  const float largest = *std::ranges::max_element(x);
  double sum = 0;
  for (const float value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

int32_t best(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// One of softmax(logits / temperature).
int32_t draw(std::span<const float> logits, float temperature, Random& random) {
  const float largest = *std::ranges::max_element(logits);
  const auto weight = [&](float x) { return std::exp((x - largest) / temperature); };
  double left = 0;
  for (const float x : logits) left += weight(x);
  left *= random.uniform();
  for (size_t i = 0; i < logits.size(); ++i)
    if ((left -= weight(logits[i])) < 0) return static_cast<int32_t>(i);
  return best(logits);
}

// Of sequences of different length the one whose tokens are the most probable on average.
double rank(const WindowText& text) {
  return text.log_prob / static_cast<double>(std::max<size_t>(text.tokens.size(), 1));
}

}  // namespace

WindowDecoder::WindowDecoder(Runner& runner, const SpeechTokens& tokens, const SpeechRules& rules)
    : runner_(runner), tokens_(tokens), rules_(rules), random_(0), heard_(runner.open()) {}

void WindowDecoder::hear(std::span<const float> features) {
  runner_.rewind(heard_, 0);
  runner_.hear(heard_, features);
}

void WindowDecoder::close_all() {
  for (const int32_t sequence : open_) runner_.close(sequence);
  open_.clear();
}

std::vector<float> WindowDecoder::logits_of(int32_t output, std::span<const int32_t> said) const {
  const std::span<const float> logits = runner_.logits(output);
  std::vector<float> allowed(logits.begin(), logits.end());
  rules_.apply(said, times_, allowed);
  return allowed;
}

// Runs the prompt; the logits of what follows it.
std::vector<float> WindowDecoder::start(std::span<const int32_t> prompt, float& no_speech) {
  const auto from = std::ranges::find(prompt, tokens_.start);
  VEERY_CHECK(from != prompt.end());
  runner_.rewind(heard_, 0);
  const RunPart part{heard_, prompt, static_cast<int32_t>(prompt.end() - from)};
  runner_.run(std::span(&part, 1));
  no_speech = 0;
  if (tokens_.no_speech >= 0) {
    const std::span<const float> logits = runner_.logits(0);
    no_speech = static_cast<float>(
        std::exp(logits[static_cast<size_t>(tokens_.no_speech)] - log_sum(logits)));
  }
  return logits_of(part.outputs - 1, {});
}

std::vector<float> WindowDecoder::languages() {
  runner_.rewind(heard_, 0);
  const RunPart part{heard_, std::span(&tokens_.start, 1), 1};
  runner_.run(std::span(&part, 1));
  const std::span<const float> logits = runner_.logits(0);
  std::vector<float> found;
  for (const SpeechLanguage& language : tokens_.languages)
    found.push_back(logits[static_cast<size_t>(language.id)]);
  const double sum = log_sum(found);
  for (float& x : found) x = static_cast<float>(std::exp(x - sum));
  return found;
}

bool WindowDecoder::full(const Path& path, const WindowOptions& options) const {
  return std::ssize(path.text.tokens) >= options.most_tokens ||
         runner_.position(path.sequence) >= runner_.context();
}

void WindowDecoder::append(Path& path, int32_t token, double log_prob) const {
  path.text.log_prob += log_prob;
  path.text.log_probs.push_back(static_cast<float>(log_prob));
  path.ended = token == tokens_.end;
  if (!path.ended) path.text.tokens.push_back(token);
}

void WindowDecoder::take(Path& path, std::span<const float> logits, float temperature) {
  const int32_t token = temperature > 0 ? draw(logits, temperature, random_) : best(logits);
  append(path, token, logits[static_cast<size_t>(token)] - log_sum(logits));
}

// One token more of each path; output i is of path i.
void WindowDecoder::run(std::span<Path* const> paths) {
  std::vector<RunPart> parts;
  for (const Path* path : paths)
    parts.push_back({path->sequence, std::span(path->text.tokens).last(1), 1});
  runner_.run(parts);
}

WindowText WindowDecoder::decode(std::span<const int32_t> prompt, const WindowOptions& options) {
  close_all();
  times_ = options.times;
  Path path;
  std::vector<float> first = start(prompt, path.text.no_speech);
  path.sequence = heard_;
  if (options.temperature == 0 && options.beams > 1)
    return search(std::move(path), std::move(first), options);
  std::vector<Path> paths(static_cast<size_t>(options.temperature > 0 ? options.best_of : 1), path);
  for (size_t i = 1; i < paths.size(); ++i) {
    paths[i].sequence = runner_.fork(heard_, runner_.position(heard_));
    open_.push_back(paths[i].sequence);
  }
  return follow(std::move(paths), std::move(first), options);
}

// Each path for itself, all of them in one run.
WindowText WindowDecoder::follow(std::vector<Path> paths, std::vector<float> first,
                                 const WindowOptions& options) {
  for (Path& path : paths) take(path, first, options.temperature);
  for (;;) {
    std::vector<Path*> active;
    for (Path& path : paths)
      if (!path.ended && !full(path, options)) active.push_back(&path);
    if (active.empty()) break;
    run(active);
    for (size_t i = 0; i < active.size(); ++i)
      take(*active[i], logits_of(static_cast<int32_t>(i), active[i]->text.tokens),
           options.temperature);
  }
  close_all();
  return std::ranges::max_element(paths, {}, [](const Path& path) { return rank(path.text); })
      ->text;
}

// Of each path the most probable tokens, the best of all paths first.
std::vector<WindowDecoder::Choice> WindowDecoder::best_choices(
    std::span<const Path> paths, std::span<const std::vector<float>> logits, size_t count) const {
  std::vector<Choice> choices;
  for (size_t i = 0; i < paths.size(); ++i) {
    const std::vector<float>& own = logits[i];
    std::vector<int32_t> ids(own.size());
    for (size_t k = 0; k < ids.size(); ++k) ids[k] = static_cast<int32_t>(k);
    const auto end = ids.begin() + static_cast<ptrdiff_t>(std::min(count, ids.size()));
    std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
      const float x = own[static_cast<size_t>(a)], y = own[static_cast<size_t>(b)];
      return x > y || (x == y && a < b);
    });
    const double sum = log_sum(own);
    for (auto id = ids.begin(); id != end; ++id) {
      const double log_prob = own[static_cast<size_t>(*id)] - sum;
      if (log_prob > -std::numeric_limits<double>::infinity())
        choices.push_back({i, *id, log_prob, paths[i].text.log_prob + log_prob});
    }
  }
  std::ranges::stable_sort(choices, std::greater(), &Choice::total);
  return choices;
}

// Beam search: the most probable continuations of all paths together go on. It ends when as many
// have ended as there are beams.
WindowText WindowDecoder::search(Path path, std::vector<float> first,
                                 const WindowOptions& options) {
  const auto beams = static_cast<size_t>(options.beams);
  std::vector<Path> paths = {std::move(path)}, ended;
  std::vector<std::vector<float>> logits = {std::move(first)};
  while (ended.size() < beams && !paths.empty() && !full(paths[0], options)) {
    std::vector<Path> next;
    for (const Choice& choice : best_choices(paths, logits, beams + 1)) {
      if (next.size() == beams) break;
      Path grown = paths[choice.path];
      append(grown, choice.token, choice.log_prob);
      if (grown.ended) {
        if (ended.size() < beams) ended.push_back(std::move(grown));
        continue;
      }
      grown.sequence = runner_.fork(grown.sequence, runner_.position(grown.sequence));
      next.push_back(std::move(grown));
    }
    close_all();
    for (const Path& one : next) open_.push_back(one.sequence);
    paths = std::move(next);
    std::vector<Path*> all;
    for (Path& one : paths) all.push_back(&one);
    if (all.empty()) break;
    run(all);
    for (size_t i = 0; i < paths.size(); ++i) {
      logits.resize(paths.size());
      logits[i] = logits_of(static_cast<int32_t>(i), paths[i].text.tokens);
    }
  }
  close_all();
  std::ranges::stable_sort(paths, std::greater(),
                           [](const Path& one) { return one.text.log_prob; });
  for (Path& one : paths)
    if (ended.size() < beams) ended.push_back(std::move(one));
  return std::ranges::max_element(ended, {}, [](const Path& one) { return rank(one.text); })->text;
}

}  // namespace veery
