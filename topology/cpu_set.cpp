#include "topology/cpu_set.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace hymn {
namespace {

constexpr int word_bits = 64;

std::size_t word_of(int cpu) { return static_cast<std::size_t>(cpu / word_bits); }
std::uint64_t bit_of(int cpu) { return std::uint64_t{1} << (cpu % word_bits); }

/// The number at the front of `text`, which it then no longer has; -1 when there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0 || number > CpuSet::max_cpu) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

std::optional<CpuSet> CpuSet::parse(std::string_view list) {
  CpuSet set;
  while (!list.empty()) {
    const int first = take_number(list);
    int last = first;
    if (list.starts_with('-')) {
      list.remove_prefix(1);
      last = take_number(list);
    }
    if (first < 0 || last < first) return std::nullopt;
    set |= range(first, last);
    if (list.empty()) break;
    if (list.size() == 1 || list.front() != ',') return std::nullopt;
    list.remove_prefix(1);
  }
  return set;
}

CpuSet CpuSet::of_this_thread() {
  // The kernel refuses masks that are shorter than its own, whose size it does not tell.
  CpuSet set;
  std::vector<unsigned long> mask(1024 / word_bits);
  static_assert(sizeof(unsigned long) * 8 == word_bits);
  while (mask.size() <= (max_cpu + 1) / word_bits) {
    auto* cpus = reinterpret_cast<cpu_set_t*>(mask.data());
    if (sched_getaffinity(0, mask.size() * sizeof(unsigned long), cpus) == 0) {
      set.words_.assign(mask.begin(), mask.end());
      break;
    }
    mask.resize(mask.size() * 2);
  }
  set.trim();
  return set;
}

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  for (int cpu = std::max(first, 0); cpu <= std::min(last, max_cpu); ++cpu) set.add(cpu);
  return set;
}

void CpuSet::add(int cpu) {
  if (cpu < 0 || cpu > max_cpu) return;
  if (words_.size() <= word_of(cpu)) words_.resize(word_of(cpu) + 1);
  words_[word_of(cpu)] |= bit_of(cpu);
}

void CpuSet::remove(int cpu) {
  if (!contains(cpu)) return;
  words_[word_of(cpu)] &= ~bit_of(cpu);
  trim();
}

bool CpuSet::contains(int cpu) const {
  return cpu >= 0 && word_of(cpu) < words_.size() && (words_[word_of(cpu)] & bit_of(cpu)) != 0;
}

int CpuSet::count() const {
  int count = 0;
  for (const std::uint64_t word : words_) count += std::popcount(word);
  return count;
}

int CpuSet::first() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return static_cast<int>(i) * word_bits + std::countr_zero(words_[i]);
  }
  return -1;
}

bool CpuSet::intersects(const CpuSet& other) const {
  const std::size_t words = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < words; ++i) {
    if ((words_[i] & other.words_[i]) != 0) return true;
  }
  return false;
}

bool CpuSet::includes(const CpuSet& other) const {
  if (other.words_.size() > words_.size()) return false;
  for (std::size_t i = 0; i < other.words_.size(); ++i) {
    if ((other.words_[i] & ~words_[i]) != 0) return false;
  }
  return true;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  words_.resize(std::min(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  trim();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  const std::size_t words = std::min(words_.size(), other.words_.size());
  for (std::size_t i = 0; i < words; ++i) words_[i] &= ~other.words_[i];
  trim();
  return *this;
}

std::vector<int> CpuSet::to_vector() const {
  std::vector<int> cpus;
  cpus.reserve(static_cast<std::size_t>(count()));
  for (std::size_t i = 0; i < words_.size(); ++i) {
    for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
      cpus.push_back(static_cast<int>(i) * word_bits + std::countr_zero(word));
    }
  }
  return cpus;
}

std::string CpuSet::to_string() const {
  const std::vector<int> cpus = to_vector();
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text +=
        end == i + 1 ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[end - 1]);
    i = end;
  }
  return text;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace hymn
