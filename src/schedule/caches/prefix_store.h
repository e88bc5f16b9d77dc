// prefix_store.h: the prefix cache on disk, which lets conversations continue after a restart.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/session.h"
#include "schedule/caches/prefix_file.h"
#include "schedule/caches/prefix_folder.h"

namespace veery {

struct PrefixStoreOptions {
  std::string folder;  ///< empty: no prefix cache on disk
  uint64_t bytes = 0;  ///< size limit of all files together
};

struct PrefixCounts {
  int64_t hits = 0, misses = 0;     ///< files that were read; files that were damaged or gone
  int64_t written = 0, failed = 0;  ///< files that were written; that could not be saved
  int64_t restored_tokens = 0;
};

/// Saves the KV cache and the recurrent state of sequences to files and restores them.
///
/// Tokens are cut into blocks of kPagePositions. The name of a block is a hash of all tokens up to
/// its end, so conversations with a common beginning share files. Keys are the model (a hash of
/// its weights, its configuration and the layout and types of its caches) and the tokens: whoever
/// sends the same tokens finds the entry, as in the prefix cache in memory. The size and the hash
/// of a file are checked before any of its pages is used.
///
/// save(), match() and load() belong to the thread that runs the model; a thread of the store
/// writes the files. A disk error is counted and changes no answer. The session must outlive the
/// store.
class PrefixStore {
 public:
  /// Reads all weights once. Throws as PrefixFolder does, and FileChanged.
  PrefixStore(Session& session, const PrefixStoreOptions& options);
  /// Writes the files that are queued.
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  /// Copies the pages of a sequence that are not in a file yet and queues them to be written.
  /// Skips those for which the queue or the memory has no room; counts the latter as failed.
  void save(int32_t sequence, std::span<const int32_t> ids) noexcept;
  /// A prefix of some tokens that the files hold.
  struct Match {
    int32_t tokens = 0;
    int32_t blocks = 0;  ///< number of block files, from the first token on
    std::string state;   ///< name of the file of the rest; empty: no rest
  };
  /// Returns the longest prefix of `ids` that the files hold, never all of them. `extended`:
  /// Session::extended() of the sequence.
  Match match(std::span<const int32_t> ids, bool extended);
  /// Opens a sequence of the session with the content of the files. Returns -1 if a file is damaged
  /// or gone, or if caches or host memory have no room. Leaves no sequence open if it throws.
  int32_t load(const Match& match, std::span<const int32_t> ids, bool extended);
  /// Waits until all queued files are written.
  void flush();
  PrefixCounts counts() const;

 private:
  using Places = std::vector<Pages::Place>;
  struct Write {
    std::string name;
    PrefixPart part;  ///< without pages: the file exists and is only marked as used
  };
  struct State {
    std::string name;
    int32_t position = 0;
    std::vector<int32_t> ids;  ///< after the blocks
  };

  uint64_t root(bool extended) const;
  std::vector<uint64_t> chain_of(std::span<const int32_t> ids, bool extended) const;
  std::string block_name(uint64_t hash) const;
  uint64_t state_bytes(int32_t position) const;
  std::vector<Places> split(std::span<const Pages::Place> places, int32_t blocks) const;
  void update_states();
  void add_state(const std::string& name);
  void forget_state(const std::string& name);
  void save_sequence(int32_t sequence, std::span<const int32_t> ids);
  void save_state(std::span<const int32_t> ids, const std::vector<uint64_t>& chain,
                  int32_t position, const Places& places);
  void save_file(const std::string& name, PrefixPart part, const Places& places);
  void write_files();
  bool load_files(const Match& match, std::span<const int32_t> ids,
                  const std::vector<uint64_t>& chain, std::span<const Pages::Place> places);
  bool load_file(const std::string& name, const PrefixPart& expected, uint64_t page_bytes,
                 const Places& places);
  void count(int64_t PrefixCounts::*what, int64_t by = 1);

  Session& session_;
  uint64_t model_ = 0;
  PrefixFolder folder_;
  std::string state_prefix_;  ///< of the names of all state files of the model
  bool cuttable_ = true;      ///< sequences can be cut anywhere: no windows, no recurrent states
  uint64_t block_bytes_ = 0;  ///< of the pages of a block
  std::map<uint64_t, std::vector<State>> states_;  ///< by the hash of the blocks before them
  std::map<std::string, uint64_t> state_parents_;  ///< keys of states_, by name of the file

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Write> writes_;
  std::set<std::string> queued_;  ///< names in writes_ and of the file that is being written
  uint64_t queued_bytes_ = 0;     ///< of their pages
  bool writing_ = false, stop_ = false;
  double paused_until_ = 0;  ///< seconds_now() until which nothing is written: the disk failed
  PrefixCounts counts_;
  std::thread writer_;
};

/// Returns a hash of everything that cached keys, values and states depend on. Reads all weights.
uint64_t prefix_model_key(Session& session);

}  // namespace veery
