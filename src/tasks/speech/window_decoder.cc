#include "tasks/speech/window_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

// Returns log(sum(exp(x))), ignoring logits of -infinity.
double log_sum(std::span<const float> x) {
  const float largest = *std::ranges::max_element(x);
  double sum = 0;
  for (const float value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

int32_t best(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// Samples from softmax(logits / temperature).
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

bool is_beam_search(const WindowOptions& options) {
  return options.temperature == 0 && options.beams > 1;
}

// Ranks sequences of different lengths by the mean log probability of their tokens.
double rank(const WindowText& text) {
  return text.log_prob / static_cast<double>(std::max<size_t>(text.tokens.size(), 1));
}

}  // namespace

WindowDecoder::WindowDecoder(Session& session, const SpeechTokens& tokens, const SpeechRules& rules,
                             int32_t windows)
    : session_(session), tokens_(tokens), rules_(rules) {
  for (int32_t i = 0; i < windows; ++i) encoded_.push_back(session.open());
}

void WindowDecoder::encode(size_t window, std::span<const float> features) {
  while (!open_.empty()) close(open_.back());  // left by a decode() that threw
  session_.rewind(encoded_[window], 0);
  session_.encode(encoded_[window], features);
}

int32_t WindowDecoder::fork(Search& search, int32_t sequence) {
  const int32_t copy = session_.fork(sequence, session_.position(sequence));
  open_.push_back(copy);
  search.forks.push_back(copy);
  return copy;
}

void WindowDecoder::close(int32_t sequence) {
  std::erase(open_, sequence);
  session_.close(sequence);
}

std::vector<float> WindowDecoder::logits_of(int32_t output, std::span<const int32_t> said) const {
  const std::span<const float> logits = session_.logits(output);
  std::vector<float> allowed(logits.begin(), logits.end());
  rules_.apply(said, times_, allowed);
  return allowed;
}

// Evaluates the prompt and returns the logits of the next token.
std::vector<float> WindowDecoder::start(const WindowTask& task, float& no_speech) {
  const auto from = std::ranges::find(task.prompt, tokens_.start);
  VEERY_CHECK(from != task.prompt.end());
  const int32_t sequence = encoded_[task.window];
  session_.rewind(sequence, 0);
  const RunPart part{sequence, task.prompt, static_cast<int32_t>(task.prompt.end() - from)};
  session_.run(std::span(&part, 1));
  no_speech = 0;
  if (tokens_.no_speech >= 0) {
    const std::span<const float> logits = session_.logits(0);
    no_speech = static_cast<float>(
        std::exp(logits[static_cast<size_t>(tokens_.no_speech)] - log_sum(logits)));
  }
  return logits_of(part.outputs - 1, {});
}

std::vector<float> WindowDecoder::languages() {
  const int32_t sequence = encoded_.front();
  session_.rewind(sequence, 0);
  const RunPart part{sequence, std::span(&tokens_.start, 1), 1};
  session_.run(std::span(&part, 1));
  const std::span<const float> logits = session_.logits(0);
  std::vector<float> found;
  for (const SpeechLanguage& language : tokens_.languages)
    found.push_back(logits[static_cast<size_t>(language.id)]);
  const double sum = log_sum(found);
  for (float& x : found) x = static_cast<float>(std::exp(x - sum));
  return found;
}

bool WindowDecoder::full(const Path& path, const WindowOptions& options) const {
  return std::ssize(path.text.tokens) >= options.most_tokens ||
         session_.position(path.sequence) >= session_.context();
}

void WindowDecoder::append(Path& path, int32_t token, double log_prob) const {
  path.text.log_prob += log_prob;
  path.text.log_probs.push_back(static_cast<float>(log_prob));
  path.ended = token == tokens_.end;
  if (!path.ended) path.text.tokens.push_back(token);
}

void WindowDecoder::take(Search& search, Path& path, std::span<const float> logits,
                         float temperature) {
  const int32_t token = temperature > 0 ? draw(logits, temperature, *search.random) : best(logits);
  append(path, token, logits[static_cast<size_t>(token)] - log_sum(logits));
}

// Evaluates the last token of each path; output i belongs to path i.
void WindowDecoder::run(std::span<Path* const> paths) {
  std::vector<RunPart> parts;
  for (const Path* path : paths)
    parts.push_back({path->sequence, std::span(path->text.tokens).last(1), 1});
  session_.run(parts);
}

// Returns the most probable continuations of all paths, best first.
std::vector<WindowDecoder::Choice> WindowDecoder::best_choices(std::span<const Path> paths,
                                                               const Logits& logits,
                                                               size_t count) const {
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

// A step of beam search: keeps the most probable continuations of all paths. The search is over
// when as many paths have ended as there are beams.
void WindowDecoder::grow(Search& search, const Logits& logits, const WindowOptions& options) {
  const auto beams = static_cast<size_t>(options.beams);
  const std::vector<int32_t> before = std::exchange(search.forks, {});
  std::vector<Path> next;
  for (const Choice& choice : best_choices(search.paths, logits, beams + 1)) {
    if (next.size() == beams) break;
    Path grown = search.paths[choice.path];
    append(grown, choice.token, choice.log_prob);
    if (grown.ended) {
      if (search.ended.size() < beams) search.ended.push_back(std::move(grown));
      continue;
    }
    grown.sequence = fork(search, grown.sequence);
    next.push_back(std::move(grown));
  }
  for (const int32_t sequence : before) close(sequence);
  search.paths = std::move(next);
  search.over = search.ended.size() >= beams || search.paths.empty();
}

WindowDecoder::Search WindowDecoder::begin(const WindowTask& task, const WindowOptions& options) {
  Search search{.random = task.random};
  Path path{.sequence = encoded_[task.window]};
  Logits first = {start(task, path.text.no_speech)};
  if (is_beam_search(options)) {
    search.over = full(path, options);
    search.paths = {std::move(path)};
    if (!search.over) grow(search, first, options);
    return search;
  }
  search.paths.assign(static_cast<size_t>(options.temperature > 0 ? options.best_of : 1), path);
  for (size_t i = 1; i < search.paths.size(); ++i)
    search.paths[i].sequence = fork(search, path.sequence);
  for (Path& one : search.paths) take(search, one, first[0], options.temperature);
  return search;
}

// Returns the paths that have not ended.
std::vector<WindowDecoder::Path*> WindowDecoder::active(Search& search,
                                                        const WindowOptions& options) const {
  std::vector<Path*> found;
  if (search.over) return found;
  for (Path& path : search.paths)
    if (is_beam_search(options) || (!path.ended && !full(path, options))) found.push_back(&path);
  return found;
}

std::vector<WindowText> WindowDecoder::decode(std::span<const WindowTask> tasks,
                                              const WindowOptions& options) {
  times_ = options.times;
  std::vector<Search> searches;
  searches.reserve(tasks.size());
  for (const WindowTask& task : tasks) searches.push_back(begin(task, options));
  for (;;) {
    std::vector<Path*> all;
    std::vector<size_t> counts;
    for (Search& search : searches) {
      const std::vector<Path*> own = active(search, options);
      all.insert(all.end(), own.begin(), own.end());
      counts.push_back(own.size());
    }
    if (all.empty()) break;
    run(all);
    for (size_t i = 0, output = 0; i < searches.size(); ++i) {
      Logits logits;
      for (size_t k = 0; k < counts[i]; ++k, ++output) {
        logits.push_back(logits_of(static_cast<int32_t>(output), all[output]->text.tokens));
        if (is_beam_search(options)) continue;
        take(searches[i], *all[output], logits.back(), options.temperature);
        logits.clear();
      }
      if (logits.empty()) continue;
      searches[i].over = full(searches[i].paths[0], options);
      if (!searches[i].over) grow(searches[i], logits, options);
    }
  }
  std::vector<WindowText> texts;
  for (Search& search : searches) texts.push_back(finish(search, options));
  return texts;
}

// Returns the best path. If too few paths of a beam search have ended, the others count too.
WindowText WindowDecoder::finish(Search& search, const WindowOptions& options) {
  for (const int32_t sequence : search.forks) close(sequence);
  std::vector<Path>& paths = search.ended;
  const bool beams = is_beam_search(options);
  if (beams)
    std::ranges::stable_sort(search.paths, std::greater(),
                             [](const Path& one) { return one.text.log_prob; });
  const size_t most = beams ? static_cast<size_t>(options.beams) : SIZE_MAX;
  for (Path& one : search.paths)
    if (paths.size() < most) paths.push_back(std::move(one));
  return std::ranges::max_element(paths, {}, [](const Path& one) { return rank(one.text); })->text;
}

}  // namespace veery
