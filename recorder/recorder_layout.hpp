// How the recorder's memory is laid out. It holds no pointers, so that other processes can map it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hymn {

/// A short text that is written while others may read it: they see bytes of it, never beyond it.
template <std::size_t size>
class SharedText {
 public:
  static_assert(size % 8 == 0);
  /// What does not fit is cut off.
  void store(std::string_view text) {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      std::uint64_t packed = 0;
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t at = word * 8 + i;
        if (at >= text.size() || at + 1 >= size) break;
        packed |= std::uint64_t{static_cast<unsigned char>(text[at])} << (8 * i);
      }
      words_[word].store(packed, std::memory_order_release);
    }
  }
  std::string load() const {
    std::string text;
    for (const auto& word : words_) {
      const std::uint64_t packed = word.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < 8; ++i) {
        const char letter = static_cast<char>((packed >> (8 * i)) & 0xff);
        if (letter == 0) return text;
        text.push_back(letter);
      }
    }
    return text;
  }

 private:
  std::array<std::atomic<std::uint64_t>, size / 8> words_{};
};

/// What others may see of one group of this rank.
struct alignas(64) GroupLine {
  static constexpr std::uint32_t aborted = 1;
  static constexpr std::uint32_t ended = 2;
  static constexpr std::uint32_t shadows = 4;  ///< it has run out, and follows the others
  static constexpr std::uint32_t shrunk = 8;   ///< shrink() of it has been called here

  std::atomic<std::uint64_t> uid_plus_one{0};  ///< 0: the line is free
  std::atomic<std::uint64_t> collectives{0};   ///< that this rank has entered
  std::atomic<std::uint64_t> completed{0};  ///< the highest n such that 1 … n have completed here
  std::atomic<std::uint64_t> p2ps{0};       ///< sends and receives that it has entered
  std::atomic<std::int64_t> timeout_ns{0};  ///< CallRecord::no_timeout: none
  std::atomic<std::uint32_t> flags{0};
  std::atomic<std::uint32_t> members{0};
  SharedText<48> description{};
  // Join::shadow_all: how often this rank has run out of input, and how many collectives it had
  // entered the last time. The count comes after the number.
  std::atomic<std::uint64_t> joins{0};
  std::atomic<std::uint64_t> joined_at{0};
  /// The last collective for which this rank has come to meet the others, before it is entered
  /// (HYMN_CHECKS=detail).
  std::atomic<std::uint64_t> met{0};
};
static_assert(sizeof(GroupLine) == 128);

/// Which method of which path, by number.
struct MethodName {
  SharedText<16> path{};
  SharedText<48> name{};
};

/// A call site in the program of an interpreter (named_sites.hpp). Without a line it is free.
struct NamedSite {
  static constexpr std::size_t file_text = 120;
  SharedText<file_text> file{};
  std::atomic<std::int32_t> line{0};
};
using NamedSiteTable = std::array<NamedSite, 256>;

/// What a rank does together with others, beside its calls on groups.
enum class MakingKind : std::uint32_t { new_group, shrink, end };

constexpr std::string_view to_string(MakingKind kind) {
  switch (kind) {
    case MakingKind::new_group:
      break;
    case MakingKind::shrink:
      return "shrink";
    case MakingKind::end:
      return "end";
  }
  return "new_group";
}

struct RecorderHeader {
  static constexpr std::uint64_t right_magic = 0x31'64'72'6e'6d'79'68'01;  // "\1hymnrd1"
  static constexpr std::uint32_t right_layout = 13;
  static constexpr std::size_t group_lines = 256;
  static constexpr std::size_t members_text = 128;  // with the end of the text
  static constexpr std::size_t method_names = 128;

  std::uint64_t magic = 0;
  std::uint32_t layout = 0;
  std::int32_t rank = 0;
  std::int32_t world_size = 0;
  std::int32_t pid = 0;
  std::uint64_t bytes = 0;     ///< of all
  std::uint64_t capacity = 0;  ///< records; 0: the recorder is off
  std::uint64_t frames = 0;    ///< of each record
  std::uint64_t counts = 0;    ///< sizes of blocks, of each record
  // When it was made: what makes times of stamps.
  std::uint64_t made_stamp = 0;
  std::int64_t made_steady_ns = 0;
  std::int64_t made_wall_ns = 0;
  /// Where the executable lies in memory, less where it says that it does.
  std::uint64_t executable_base = 0;
  std::atomic<std::uint64_t> job{0};  ///< the same on all ranks of a world; 0: not known
  /// How it has ended, as far as it could say so: 0: it has not; farewell_goodbye; farewell_exit
  /// and the status of the process; farewell_error and the rank whose failure made it leave; or
  /// farewell_after and the rank whose failure it had seen before it was done.
  std::atomic<std::uint32_t> farewell{0};
  static constexpr std::uint32_t farewell_goodbye = 1;
  static constexpr std::uint32_t farewell_exit = 0x100;
  static constexpr std::uint32_t farewell_error = 0x10000;
  static constexpr std::uint32_t farewell_after = 0x40000000;
  /// When this rank has last written a dump of itself, by the steady clock; 0: never.
  std::atomic<std::int64_t> dumped_steady_ns{0};
  SharedText<64> host{};
  SharedText<64> program{};
  SharedText<256> executable{};  ///< its path; "" where it is too long
  std::array<MethodName, method_names> methods{};
  NamedSiteTable sites{};
  std::array<GroupLine, group_lines> groups{};
  /// Of each line, as pack_ranks(); "" where that is too long.
  std::array<SharedText<members_text>, group_lines> members{};
  /// A call of another library that may block, "" for none; and since when, by the wall clock.
  SharedText<64> outer_call{};
  std::atomic<std::int64_t> outer_since_ns{0};
  /// The group that this rank is making or shrinking, where it waits for the others, plus one; at
  /// the end of the world, that of all ranks; 0: none.
  /// Since when, and when it has given that up, as stamps (0: it has not).
  /// And with whom, as pack_ranks(); "" where that is too long. Of a new group its tag, too, as
  /// shown_tag().
  std::atomic<std::uint64_t> making_plus_one{0};
  std::atomic<std::uint64_t> making_since{0};
  std::atomic<std::uint64_t> making_given_up{0};
  SharedText<members_text> making_ranks{};
  SharedText<64> making_tag{};
  std::atomic<MakingKind> making_kind{MakingKind::new_group};
  /// The last new group whose making this rank has given up, plus one, and when: it may have begun
  /// to end its world since.
  std::atomic<std::uint64_t> unmade_plus_one{0};
  std::atomic<std::uint64_t> unmade_at{0};
  /// A thread of hymn's moves on what this rank has started.
  std::atomic<std::uint32_t> progress_thread{0};
  // The ring follows.
};
static_assert(sizeof(RecorderHeader) % 64 == 0);

}  // namespace hymn
