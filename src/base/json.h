// json.h: the JSON value type of the project, and a parser that is safe on untrusted input.
#pragma once
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace veery {

template <typename T>
concept JsonInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;
template <typename T>
concept JsonMap = requires {
  typename T::mapped_type;
};
/// Containers such as vectors and spans, except strings.
template <typename T>
concept JsonList = requires(const T& list) {
  typename T::value_type;
  list.begin() != list.end();
}
&&!JsonMap<T> && !std::convertible_to<const T&, std::string_view>;

/// A JSON value. Its interface follows nlohmann::json, which is only used to print: that library is
/// a template of 25,000 lines, and this class is compiled once. Objects keep the order of their
/// members, because chat templates and printed output depend on it.
///
/// get() of another type and at() of a missing member or index throw Error(kFormat).
class Json {
 public:
  enum class Type { kNull, kBool, kInteger, kUnsigned, kFloat, kString, kArray, kObject };
  struct Member;
  class const_iterator;
  class iterator;
  struct Members;

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}                        // NOLINT(google-explicit-constructor)
  Json(std::same_as<bool> auto value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  template <JsonInteger T>
  Json(T value)  // NOLINT(google-explicit-constructor)
      : value_(std::in_place_type<std::conditional_t<std::signed_integral<T>, int64_t, uint64_t>>,
               value) {}
  Json(std::floating_point auto value)  // NOLINT(google-explicit-constructor)
      : value_(static_cast<double>(value)) {}
  Json(const char* text);       // NOLINT(google-explicit-constructor)
  Json(std::string text);       // NOLINT(google-explicit-constructor)
  Json(std::string_view text);  // NOLINT(google-explicit-constructor)
  template <JsonList T>
  requires(!std::same_as<T, Json>) Json(const T& items)
      : Json(array()) {  // NOLINT(google-explicit-constructor)
    for (const auto& item : items) push_back(Json(item));
  }
  template <JsonMap T>
  Json(const T& members) : Json(object()) {  // NOLINT(google-explicit-constructor)
    for (const auto& [key, value] : members) (*this)[key] = Json(value);
  }
  /// An object if each item is an array of a string and another value, else an array.
  Json(std::initializer_list<Json> items);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json array(std::initializer_list<Json> items);
  static Json object();
  static Json object(std::initializer_list<Json> members);
  static Json object(std::vector<Member> members);  ///< keys must be unique

  Type type() const { return static_cast<Type>(value_.index()); }
  const char* type_name() const;  ///< as in "expected a string, found null"
  bool is_null() const { return type() == Type::kNull; }
  bool is_boolean() const { return type() == Type::kBool; }
  bool is_number_integer() const { return type() == Type::kInteger || is_number_unsigned(); }
  bool is_number_unsigned() const;  ///< an integer >= 0
  bool is_number_float() const { return type() == Type::kFloat; }
  bool is_integer_in(int64_t least, int64_t most) const;
  bool is_number() const { return is_number_integer() || is_number_float(); }
  bool is_string() const { return type() == Type::kString; }
  bool is_array() const { return type() == Type::kArray; }
  bool is_object() const { return type() == Type::kObject; }

  /// Returns the value as T: bool, std::string, a number, or a vector of these. Numbers are
  /// converted if T can hold the value; fractions are truncated.
  template <typename T>
  T get() const {
    if constexpr (std::same_as<T, bool>)
      return boolean();
    else if constexpr (std::same_as<T, std::string>)
      return string();
    else if constexpr (JsonList<T>)
      return list<T>();
    else if constexpr (std::floating_point<T>)
      return static_cast<T>(number());
    else if constexpr (std::signed_integral<T>)
      return static_cast<T>(integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    else
      return static_cast<T>(natural(std::numeric_limits<T>::max()));
  }
  const std::string& string() const;
  bool boolean() const;
  double number() const;

  /// Number of items or members; 0 for null, 1 for every other value.
  size_t size() const;
  bool empty() const { return size() == 0; }
  const Json& front() const { return at(0); }
  const Json& back() const { return at(size() - 1); }
  Json& back() { return at(size() - 1); }

  /// Member access. The non-const operator[] inserts a missing member and turns null into an
  /// object.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  Json& operator[](const std::string& key) { return (*this)[std::string_view(key)]; }
  const Json& operator[](std::string_view key) const { return at(key); }
  const Json& operator[](const char* key) const { return at(std::string_view(key)); }
  const Json& operator[](const std::string& key) const { return at(std::string_view(key)); }
  const Json& at(std::string_view key) const;
  Json& at(std::string_view key);
  bool contains(std::string_view key) const { return member(key) != nullptr; }
  const_iterator find(std::string_view key) const;
  iterator find(std::string_view key);
  void update(const Json& other);  ///< inserts or replaces the members of `other`
  size_t erase(std::string_view key);
  void erase(size_t index);  ///< removes an item of an array
  /// Returns the member, or `otherwise` if it is missing.
  template <typename T>
  T value(std::string_view key, T otherwise) const {
    const Json* found = member(key);
    if constexpr (std::same_as<T, Json>)
      return found != nullptr ? *found : std::move(otherwise);
    else
      return found != nullptr ? found->get<T>() : std::move(otherwise);
  }
  std::string value(std::string_view key, const char* otherwise) const {
    return value<std::string>(key, otherwise);
  }
  /// Returns a range of (key, value) members for range-based loops.
  Members items() const;
  /// Returns the member, or nullptr if it is missing.
  const Json* member(std::string_view key) const;

  /// Item access. push_back turns null into an empty array first.
  template <JsonInteger T>
  Json& operator[](T index) {
    return at(static_cast<size_t>(index));
  }
  template <JsonInteger T>
  const Json& operator[](T index) const {
    return at(static_cast<size_t>(index));
  }
  Json& at(size_t index);
  const Json& at(size_t index) const;
  void push_back(Json item);
  Json& emplace_back(Json item);
  void push_front(Json item);

  /// Iterates over the items of an array or the values of an object.
  const_iterator begin() const;
  const_iterator end() const;
  iterator begin();
  iterator end();

  /// Compares numbers by value regardless of their type, and objects regardless of member order.
  friend bool operator==(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& value);

 private:
  template <typename T>
  T list() const {
    if (!is_array()) fail_array();
    T items;
    for (const Json& item : *this) items.push_back(item.get<typename T::value_type>());
    return items;
  }
  [[noreturn]] void fail_array() const;
  int64_t integer(int64_t least, int64_t most) const;
  uint64_t natural(uint64_t most) const;
  std::pair<const Json*, const std::unique_ptr<Member>*> place(size_t index) const;

  /// Each member has a stable address, so that `json["a"] = json["b"]` may insert "a".
  class MemberList : public std::vector<std::unique_ptr<Member>> {
   public:
    MemberList() = default;
    MemberList(const MemberList& other);
    MemberList(MemberList&& other) noexcept;
    MemberList& operator=(const MemberList& other);
    MemberList& operator=(MemberList&& other) noexcept;
    ~MemberList();
    Member* find(std::string_view key) const;  ///< or nullptr
  };

  // The alternatives are in the order of Type.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<Json>,
               MemberList>
      value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

/// Iterates over items or member values; key() is valid for members only.
class Json::const_iterator {
 public:
  using value_type = Json;
  using difference_type = std::ptrdiff_t;

  const_iterator() = default;
  const_iterator(const Json* item, const std::unique_ptr<Member>* member)
      : item_(item), member_(member) {}
  const Json& operator*() const { return value(); }
  const Json* operator->() const { return &value(); }
  const_iterator& operator++() {
    member_ != nullptr ? void(++member_) : void(++item_);
    return *this;
  }
  const_iterator operator++(int) {
    const const_iterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const const_iterator&) const = default;
  const std::string& key() const { return member().key; }
  const Json& value() const { return member_ != nullptr ? member().value : *item_; }
  const Member& member() const { return **member_; }

 private:
  const Json* item_ = nullptr;
  const std::unique_ptr<Member>* member_ = nullptr;
};

class Json::iterator : public Json::const_iterator {
 public:
  using const_iterator::const_iterator;
  Json& operator*() const { return const_cast<Json&>(value()); }
  Json* operator->() const { return &**this; }
  iterator& operator++() {
    const_iterator::operator++();
    return *this;
  }
  iterator operator++(int) {
    const iterator before = *this;
    ++*this;
    return before;
  }
};

/// The range that items() returns.
struct Json::Members {
  class iterator : public const_iterator {
   public:
    using value_type = Member;
    using const_iterator::const_iterator;
    iterator(const const_iterator& at)
        : const_iterator(at) {}  // NOLINT(google-explicit-constructor)
    const Member& operator*() const { return member(); }
    iterator& operator++() {
      const_iterator::operator++();
      return *this;
    }
    iterator operator++(int) {
      const iterator before = *this;
      ++*this;
      return before;
    }
  };
  iterator first, last;
  iterator begin() const { return first; }
  iterator end() const { return last; }
};

/// Parses `text`. Throws kFormat naming `what` and the position; rejects values nested deeper than
/// `max_depth`.
Json parse_json(std::string_view text, const std::string& what, int max_depth = 128);

/// As parse_json(), but returns nullopt if `text` is not valid JSON.
std::optional<Json> maybe_json(std::string_view text);

/// Prints `value`, on one line if `indent` is negative. Replaces malformed UTF-8 by U+FFFD instead
/// of throwing.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace veery
