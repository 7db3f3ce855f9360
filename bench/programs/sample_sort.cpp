// Sample sort: ranks agree on splitters by what each has sampled of its keys, send each key to the
// rank whose range it is in (all_to_all of the counts, then all_to_all with counts), and sort what
// has come.
//
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_sample_sort --sizes 10000,100000,1000000
//
// A size is the number of a rank's keys.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench/programs/beside.hpp"
#include "bench/programs/inputs.hpp"

namespace hymn::bench {
namespace {

using Key = std::uint32_t;
using Keys = std::vector<Key>;

constexpr std::size_t samples = 256;  // of each rank: no rank gets much more than its part

/// By eight bits after the other; `spare` is as long.
void sort_keys(Keys& keys, Keys& spare, std::size_t count) {
  for (int bits = 0; bits < 32; bits += 8) {
    std::array<std::size_t, 256> begins{};
    const auto digit = [bits](Key key) { return (key >> bits) & 255U; };
    for (std::size_t i = 0; i < count; ++i) ++begins[digit(keys[i])];
    std::exclusive_scan(begins.begin(), begins.end(), begins.begin(), std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) spare[begins[digit(keys[i])]++] = keys[i];
    keys.swap(spare);
  }
}

/// What must be the same before and after, and how what a rank has lies to what others have.
struct Told {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

Told tell(const Key* keys, std::size_t count) {
  Told told{.count = count};
  for (std::size_t i = 0; i < count; ++i) {
    told.sum += keys[i];
    told.squares += std::uint64_t{keys[i]} * keys[i];
  }
  if (count > 0) {
    told.first = keys[0];
    told.last = keys[count - 1];
  }
  return told;
}

template <class Comm>
class SampleSort {
 public:
  static constexpr std::string_view name = "sample_sort";
  static std::vector<std::size_t> sizes() { return {10000, 100000, 1000000}; }

  SampleSort(Comm comm, std::size_t count)
      : comm_(comm),
        ranks_(static_cast<std::size_t>(comm.size())),
        own_(count),
        ordered_(count),
        room_(2 * count + samples),
        sorted_(room_),
        spare_(room_) {
    if (count < samples)
      throw std::runtime_error(fmt::format("sample_sort: no fewer than {} keys", samples));
  }

  void set_up(std::uint64_t seed) {
    Numbers numbers(seed, static_cast<std::uint64_t>(comm_.rank()));
    for (Key& key : own_) key = static_cast<Key>(numbers.next() >> 32);
  }

  void run() {
    choose_splitters();
    order_by_rank();
    comm_.all_to_all(std::span<const std::size_t>(out_counts_), std::span(in_counts_));
    come_ = std::accumulate(in_counts_.begin(), in_counts_.end(), std::size_t{0});
    if (come_ > room_) throw std::runtime_error("sample_sort: the ranges are too uneven");
    comm_.all_to_all(std::span<const Key>(ordered_), std::span<const std::size_t>(out_counts_),
                     std::span(sorted_).first(come_), std::span<const std::size_t>(in_counts_));
    sort_keys(sorted_, spare_, come_);
  }

  /// In order on each rank and from rank to rank, and the same keys as before.
  void check() {
    const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(come_);
    bool right = std::is_sorted(sorted_.begin(), end);
    const std::vector<Told> before = tell_all(tell(own_.data(), own_.size()));
    const std::vector<Told> after = tell_all(tell(sorted_.data(), come_));
    Told change;
    for (std::size_t i = 0; i < ranks_; ++i) {
      change.count += before[i].count - after[i].count;
      change.sum += before[i].sum - after[i].sum;
      change.squares += before[i].squares - after[i].squares;
      right = right && (i == 0 || after[i - 1].last <= after[i].first);
    }
    if (!right || change.count != 0 || change.sum != 0 || change.squares != 0)
      throw std::runtime_error(fmt::format("sample_sort with {}: not sorted", Comm::name));
    result_.assign(sorted_.begin(), end);
  }

  const Keys& result() const { return result_; }
  static bool same(const Keys& a, const Keys& b) { return a == b; }

 private:
  void choose_splitters() {
    for (std::size_t i = 0; i < samples; ++i) sampled_[i] = own_[i * (own_.size() / samples)];
    comm_.all_gather(std::span<const Key>(sampled_), std::span(all_sampled_));
    std::sort(all_sampled_.begin(), all_sampled_.end());
    for (std::size_t i = 1; i < ranks_; ++i) splitters_[i - 1] = all_sampled_[i * samples];
  }
  std::size_t rank_of(Key key) const {
    std::size_t rank = 0;
    for (const Key splitter : splitters_) rank += key >= splitter ? 1 : 0;
    return rank;
  }
  void order_by_rank() {
    std::fill(out_counts_.begin(), out_counts_.end(), 0);
    for (const Key key : own_) ++out_counts_[rank_of(key)];
    std::exclusive_scan(out_counts_.begin(), out_counts_.end(), begins_.begin(), std::size_t{0});
    for (const Key key : own_) ordered_[begins_[rank_of(key)]++] = key;
  }
  std::vector<Told> tell_all(const Told& told) {
    constexpr std::size_t words = sizeof(Told) / sizeof(std::uint64_t);
    const std::array<std::uint64_t, words> own{told.count, told.sum, told.squares, told.first,
                                               told.last};
    std::vector<std::uint64_t> all(words * ranks_);
    comm_.all_gather(std::span<const std::uint64_t>(own), std::span(all));
    std::vector<Told> tolds;
    for (const std::uint64_t* at = all.data(); tolds.size() < ranks_; at += words)
      tolds.push_back({at[0], at[1], at[2], at[3], at[4]});
    return tolds;
  }

  Comm comm_;
  std::size_t ranks_;
  Keys own_;
  Keys ordered_;  ///< by the ranks they go to
  std::size_t room_;
  Keys sorted_;
  Keys spare_;
  Keys result_;
  std::size_t come_ = 0;
  Keys sampled_ = Keys(samples);
  Keys all_sampled_ = Keys(samples * ranks_);
  Keys splitters_ = Keys(ranks_ - 1);
  std::vector<std::size_t> out_counts_ = std::vector<std::size_t>(ranks_);
  std::vector<std::size_t> in_counts_ = std::vector<std::size_t>(ranks_);
  std::vector<std::size_t> begins_ = std::vector<std::size_t>(ranks_);
};

}  // namespace
}  // namespace hymn::bench

int main(int argc, char** argv) {
  return hymn::bench::run_beside<hymn::bench::SampleSort>(argc, argv);
}
