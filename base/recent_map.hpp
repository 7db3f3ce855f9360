// A map that forgets: for what comes for as long as a job lives, and of which the latest matters.
#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <utility>

namespace hymn {

/// Holds so many entries at most; what was put in first goes first. Iterated from the oldest on.
template <class Key, class Value>
class RecentMap {
 public:
  using Entries = std::list<std::pair<const Key, Value>>;

  explicit RecentMap(std::size_t most) : most_(most) {}

  std::size_t size() const { return entries_.size(); }
  bool contains(const Key& key) const { return places_.contains(key); }
  Value* find(const Key& key) {
    const auto place = places_.find(key);
    return place == places_.end() ? nullptr : &place->second->second;
  }
  const Value* find(const Key& key) const { return const_cast<RecentMap*>(this)->find(key); }
  /// False, and nothing has changed, where there is one.
  bool try_emplace(const Key& key, Value value) {
    if (contains(key)) return false;
    entries_.emplace_back(key, std::move(value));
    places_.emplace(key, std::prev(entries_.end()));
    if (entries_.size() > most_) erase(Key(entries_.front().first));
    return true;
  }
  void insert_or_assign(const Key& key, Value value) {
    erase(key);
    try_emplace(key, std::move(value));
  }
  bool erase(const Key& key) {
    const auto place = places_.find(key);
    if (place == places_.end()) return false;
    entries_.erase(place->second);
    places_.erase(place);
    return true;
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::size_t most_;
  Entries entries_;
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace hymn
