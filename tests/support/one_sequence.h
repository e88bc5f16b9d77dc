// one_sequence.h: a sequence with access to all functions of its session, for tests of KV caches
// and bit equality.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/sequence_file.h"
#include "engine/sequence_reader.h"

namespace veery::test {

class OneSequence : public SequenceReader {
 public:
  using SequenceReader::SequenceReader;

  size_t cache_bytes() const { return session_.cache_bytes(); }
  void save() { session_.save(sequence_); }
  int32_t nearest(int32_t position) const { return session_.nearest(sequence_, position); }
  bool can_rewind(int32_t position) const { return session_.can_rewind(sequence_, position); }
  void rewind(int32_t position) { session_.rewind(sequence_, position); }

  /// Splits prompts into chunks of at most `chunk` tokens, from 1 to LoadOptions::chunk.
  void set_chunk(int32_t chunk) {
    VEERY_CHECK(chunk >= 1 && chunk <= model_.options().chunk);
    chunk_ = chunk;
  }

  /// Greedy decoding without materialising logits: feeds `token`, then each most probable next
  /// token, up to out.size() times. Returns the number of tokens, which is smaller if the context
  /// ends or `stop` returns true.
  size_t decode_greedy(int32_t token, std::span<int32_t> out,
                       const std::function<bool(int32_t)>& stop = {}) {
    check({&token, 1});
    size_t made = 0;
    while (made < out.size() && position() < context()) {
      const RunPart run = {sequence_, {&token, 1}, 1, Wants::kBest};
      session_.run({&run, 1});
      token = session_.best(0);
      out[made++] = token;
      if (stop && stop(token)) break;
    }
    return made;
  }

  /// Writes the tokens fed so far, `ids`, and the KV cache to a file. Throws kInput if the number
  /// of ids is wrong, and as write_sequence() does.
  void write(std::span<const int32_t> ids, const std::string& path) {
    if (std::ssize(ids) != position())
      throw Error(ErrorKind::kInput, "{} tokens are to be saved, the sequence has {}", ids.size(),
                  position());
    write_sequence(session_, sequence_, {{ids.begin(), ids.end()}, position(), {}}, path);
  }

  /// Restores a file written by write() and returns its tokens; logits are not restored. Throws as
  /// SequenceFile does, leaving the sequence empty.
  std::vector<int32_t> read(const std::string& path) {
    SequenceFile file(session_, path);
    if (file.saved().positions != std::ssize(file.saved().ids))
      throw Error(ErrorKind::kInput, "{}: the caches hold {} of {} tokens, expected all", path,
                  file.saved().positions, file.saved().ids.size());
    session_.close(sequence_);
    logits_ = {};
    int32_t sequence = -1;
    try {
      sequence = file.load();
    } catch (...) {
      sequence_ = session_.open();
      throw;
    }
    sequence_ = sequence >= 0 ? sequence : session_.open();
    return file.saved().ids;
  }
};

}  // namespace veery::test
