// page_cache.h: the prefix cache in memory: pages of KV caches by the tokens that they hold
// (automatic prefix caching; Kwon et al., PagedAttention, SOSP 2023).
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/pages.h"

namespace veery {

/// Cached keys and values depend on this besides the tokens. Prefixes with different keys share
/// nothing.
struct PrefixKey {
  int64_t adapter = 0;    ///< identifies the LoRA adapter; 0: none
  bool extended = false;  ///< Session::extended()
  auto operator<=>(const PrefixKey&) const = default;
};

/// A tree of pages. A full page is found by the hash of its tokens and of all pages before it, and
/// verified by comparing the tokens. The last page of a prefix may be partly filled; it is found by
/// its common beginning with a prompt, so prefixes are reused down to one token.
///
/// Models with sliding windows or recurrent layers continue only from a state (Pages::State), which
/// belongs to the page with its last position. Pages after the last state are dropped.
///
/// Pages that no sequence uses are evicted when their memory is needed, the least recently used
/// first and the later pages of a prefix before the earlier ones. Not thread-safe. `pages` must
/// outlive it.
class PageCache {
 public:
  using HashTokens = uint64_t (*)(uint64_t before, std::span<const int32_t> ids);
  static uint64_t hash_tokens(uint64_t before, std::span<const int32_t> ids);

  explicit PageCache(Pages& pages, HashTokens hash = hash_tokens);
  ~PageCache();
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  struct Node;
  struct State;
  struct Match {
    int32_t tokens = 0;
    std::vector<Node*> path;  ///< the full pages that equal the prompt, also those after `tokens`
    Node* last = nullptr;     ///< the page with the last of the tokens; nullptr: no tokens
    State* state = nullptr;   ///< to continue from; nullptr if the model needs none
  };
  /// Finds the longest prefix of `ids` from which a sequence can continue. Takes time in proportion
  /// to the length of `ids`.
  Match match(const PrefixKey& key, std::span<const int32_t> ids) const;
  /// Returns the pages of the first Match::tokens tokens, for Pages::adopt().
  std::vector<int32_t> pages_of(const Match& match) const;
  static const Pages::State* state_of(const Match& match);
  /// Returns the states before the end of a match, the last one first.
  static std::vector<const Pages::State*> states_of(const Match& match);
  /// Records that a match was used.
  void touch(const Match& match);

  /// The full pages of a sequence, from the first on. They are not evicted until release().
  struct Path {
    PrefixKey key;
    std::vector<Node*> nodes;
  };
  /// Begins the path of a sequence that shares the given pages.
  Path retain(const PrefixKey& key, std::span<Node* const> nodes);
  /// Adds the next page of a sequence, with the tokens `ids`, to its path.
  void add_page(Path& path, int32_t sequence, std::span<const int32_t> ids);
  /// Gives back the pages of a path.
  void release(Path& path) { release(path, nullptr); }
  /// The same, and caches what else a sequence has before it is closed: `rest`, the tokens after
  /// its full pages, and its states at `positions`, ascending. Caches less if host memory is short.
  void release_with(Path& path, int32_t sequence, std::span<const int32_t> rest,
                    std::span<const int32_t> positions);

  /// Evicts a page that no sequence uses, or a state. Returns false if there is none.
  bool evict_page();
  bool evict_state();
  int32_t unused() const { return static_cast<int32_t>(unused_.size()); }  ///< pages
  int32_t size() const { return static_cast<int32_t>(unused_.size() + used_.size()); }

 private:
  using Nodes = std::list<Node>;
  using States = std::list<State>;
  /// Pages after the same page, by their tokens.
  struct Probe {
    const Node* parent;
    std::span<const int32_t> ids;
  };
  struct Order {
    using is_transparent = void;
    static Probe probe(const Node* node);
    static Probe probe(const Probe& probe) { return probe; }
    bool operator()(const auto& a, const auto& b) const { return less(probe(a), probe(b)); }
    static bool less(const Probe& a, const Probe& b);
  };
  struct Tail {
    Node* node = nullptr;
    State* state = nullptr;
    int32_t tokens = 0;  ///< of the whole prompt
  };

  Node* root(const PrefixKey& key);
  Node* child(const Node* parent, std::span<const int32_t> ids) const;
  Tail match_tail(const Node* parent, std::span<const int32_t> rest) const;
  void consider(Node* node, int32_t position, Tail& best) const;
  Node* insert(Node* parent, int32_t sequence, std::span<const int32_t> ids);
  Node* add_tail(Node* parent, int32_t sequence, std::span<const int32_t> ids);
  void absorb(Node* node);
  void add_state(Node* node, int32_t sequence, int32_t position, bool last);
  void supersede(const Path& path, Node* tail, int32_t end);
  void release(Path& path, Node* tail);
  void use(Node* node);
  void prune(Node* node);
  void erase(Node* node);
  void erase(State* state);

  Pages& pages_;
  bool needs_states_;
  HashTokens hash_;
  std::map<PrefixKey, Nodes> roots_;
  Nodes used_;    ///< by sequences
  Nodes unused_;  ///< least recently used first; a page comes before the page that it follows
  std::unordered_multimap<uint64_t, Node*> index_;  ///< full pages by their hash
  std::set<Node*, Order> order_;
  States snapshots_, ends_;  ///< least recently used first; `ends_`: of the ends of sequences
};

}  // namespace veery
