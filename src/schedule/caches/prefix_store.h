// prefix_store.h: the prefix cache on disk: conversations that are known after a restart.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/runner.h"
#include "schedule/caches/prefix_file.h"
#include "schedule/caches/prefix_folder.h"

namespace veery {

struct PrefixStoreOptions {
  std::string folder;  ///< empty: there is no such cache
  uint64_t bytes = 0;  ///< of all files, at most
};

struct PrefixCounts {
  int64_t hits = 0, misses = 0;     ///< files that were read, or were damaged or gone
  int64_t written = 0, failed = 0;  ///< files
  int64_t restored_tokens = 0;
};

/// What caches hold of conversations, in files. Tokens are cut into blocks of kPagePositions; a
/// block is known by the hash of all tokens up to its end, so conversations that begin alike share
/// files. Keys are the model (a hash of all bytes of its weights, of its configuration, of the
/// layout and types of the caches) and the tokens: whoever sends the same tokens finds them, as in
/// the prefix cache in memory. Files are checked against the sizes that the model gives and by
/// their hash before a page is used.
///
/// save(), match() and load() are of the thread that runs the model; files are written on a thread
/// of its own. An error of the disk is counted and changes no answer. The runner must outlive it.
class PrefixStore {
 public:
  /// Reads all weights once. Throws as PrefixFolder, FileChanged.
  PrefixStore(Runner& runner, const PrefixStoreOptions& options);
  /// Writes what waits.
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  /// Copies what a sequence holds of these tokens and is not in a file yet, to be written.
  void save(int32_t sequence, std::span<const int32_t> ids);
  /// A beginning of some tokens that files have.
  struct Match {
    int32_t tokens = 0;
    int32_t blocks = 0;  ///< files of blocks, from the first on
    std::string state;   ///< name of the file of the rest; empty: there is none
  };
  /// The longest of these tokens; never all. `extended`: Runner::extended() of the sequence.
  Match match(std::span<const int32_t> ids, bool extended);
  /// A new sequence of the runner with what the files hold; -1: one of them is damaged or gone, or
  /// there is no memory for it.
  int32_t load(const Match& match, std::span<const int32_t> ids, bool extended);
  /// Waits until all that was saved is written.
  void flush();
  PrefixCounts counts() const;

 private:
  struct Write {
    std::string name;
    PrefixPart part;  ///< without pages: the file is there, and is used
  };
  struct State {
    std::string name;
    int32_t position = 0;
    std::vector<int32_t> ids;  ///< after the blocks
  };

  uint64_t root(bool extended) const;
  std::string block_name(uint64_t hash) const;
  void read_states();
  uint64_t state_bytes(int32_t position) const;
  void save_state(int32_t sequence, std::span<const int32_t> ids,
                  const std::vector<uint64_t>& chain, int32_t position, std::vector<Write>& writes);
  void save_blocks(int32_t sequence, std::span<const int32_t> ids,
                   const std::vector<uint64_t>& chain, int32_t position,
                   std::vector<Write>& writes);
  std::vector<uint64_t> chain_of(std::span<const int32_t> ids, bool extended) const;
  void queue(std::vector<Write> writes);
  void write_files();
  bool read_state(const Match& match, std::span<const int32_t> rest, uint64_t parent,
                  std::span<const Pages::Place> places);
  bool read_blocks(const Match& match, std::span<const int32_t> ids,
                   const std::vector<uint64_t>& chain, std::span<const Pages::Place> places);
  std::optional<PrefixPart> read(const std::string& name);
  void count(int64_t PrefixCounts::*what, int64_t by = 1);

  Runner& runner_;
  uint64_t model_ = 0;
  PrefixFolder folder_;
  bool cuttable_ = true;      ///< sequences can be cut anywhere: no windows, no recurrent states
  uint64_t block_bytes_ = 0;  ///< pages of a block
  std::map<uint64_t, std::vector<State>> states_;  ///< by the hash of the blocks before them
  std::set<std::string> known_states_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> writes_;
  std::set<std::string> waiting_;  ///< names that are being written
  uint64_t waiting_bytes_ = 0;
  bool writing_ = false, stop_ = false;
  double paused_until_ = 0;  ///< seconds_now(): the disk failed
  PrefixCounts counts_;
  std::thread writer_;
};

/// A hash of all that cached keys, values and states depend on. Reads all weights.
uint64_t prefix_model_key(Runner& runner);

}  // namespace veery
