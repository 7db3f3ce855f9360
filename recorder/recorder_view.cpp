#include "recorder/recorder_view.hpp"

#include <new>

#include "hymn/error.hpp"
#include "recorder/rank_list.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t most_entries = std::uint64_t{1} << 20;
constexpr std::uint64_t most_frames = 32;
constexpr std::uint64_t most_counts = 65535;

CallRing::Size size_of_ring(const RecorderHeader& header) {
  return {.entries = header.capacity, .frames = header.frames, .counts = header.counts};
}

const RecorderHeader* header_of(std::span<const std::byte> memory) {
  if (memory.size() >= sizeof(RecorderHeader)) {
    const auto* header = std::launder(reinterpret_cast<const RecorderHeader*>(memory.data()));
    const bool right = header->magic == RecorderHeader::right_magic &&
                       header->layout == RecorderHeader::right_layout &&
                       header->capacity <= most_entries && header->frames <= most_frames &&
                       header->counts <= most_counts;
    if (right &&
        memory.size() >= sizeof(RecorderHeader) + CallRing::memory_bytes(size_of_ring(*header)))
      return header;
  }
  throw ResourceError("this is not the memory of a flight recorder",
                      {.remedy = "run the same version of hymn on all ranks"});
}

}  // namespace

RecorderView::RecorderView(std::span<const std::byte> memory)
    : header_(header_of(memory)),
      ring_(CallRing::attach(memory.subspan(sizeof(RecorderHeader)), size_of_ring(*header_))) {}

GroupLineSeen read_line(const GroupLine& line) {
  GroupLineSeen seen;
  seen.uid = line.uid_plus_one.load(std::memory_order_acquire) - 1;
  // Completed before entered: what has completed was entered before.
  seen.completed = line.completed.load(std::memory_order_acquire);
  seen.met = line.met.load(std::memory_order_acquire);
  seen.collectives = line.collectives.load(std::memory_order_acquire);
  seen.p2ps = line.p2ps.load(std::memory_order_acquire);
  seen.timeout_ns = line.timeout_ns.load(std::memory_order_acquire);
  seen.members = line.members.load(std::memory_order_acquire);
  const std::uint32_t flags = line.flags.load(std::memory_order_acquire);
  seen.aborted = (flags & GroupLine::aborted) != 0;
  seen.ended = (flags & GroupLine::ended) != 0;
  seen.shrunk = (flags & GroupLine::shrunk) != 0;
  if ((flags & GroupLine::shadows) != 0)
    seen.shadows_since = line.joined_at.load(std::memory_order_acquire);
  seen.description = line.description.load();
  return seen;
}

std::vector<GroupLineSeen> RecorderView::groups() const {
  std::vector<GroupLineSeen> found;
  for (std::size_t i = 0; i < header_->groups.size(); ++i) {
    const GroupLine& line = header_->groups[i];
    const std::uint64_t owner = line.uid_plus_one.load(std::memory_order_acquire);
    if (owner == 0) continue;
    GroupLineSeen seen = read_line(line);
    seen.ranks = unpack_ranks(header_->members[i].load());
    // Given to another group meanwhile: that one came after the question.
    if (line.uid_plus_one.load(std::memory_order_acquire) != owner || seen.uid + 1 != owner)
      continue;
    found.push_back(std::move(seen));
  }
  return found;
}

std::vector<GroupMark> RecorderView::marks() const {
  std::vector<GroupMark> all;
  for (const GroupLineSeen& line : groups())
    all.push_back({line.uid, line.collectives, line.completed});
  return all;
}

const GroupLine* RecorderView::line_of(std::uint64_t uid) const {
  for (const GroupLine& line : header_->groups)
    if (line.uid_plus_one.load(std::memory_order_acquire) == uid + 1) return &line;
  return nullptr;
}

std::string RecorderView::members_of(std::uint64_t uid) const {
  const GroupLine* const line = line_of(uid);
  if (line == nullptr) return "";
  std::string ranks =
      header_->members[static_cast<std::size_t>(line - header_->groups.data())].load();
  // It may have been given to another group meanwhile.
  return line->uid_plus_one.load(std::memory_order_acquire) == uid + 1 ? ranks : "";
}

std::optional<RecorderView::Making> RecorderView::making() const {
  const std::uint64_t plus_one = header_->making_plus_one.load(std::memory_order_acquire);
  if (plus_one == 0) return std::nullopt;
  Making seen{header_->making_kind.load(),     plus_one - 1,
              header_->making_ranks.load(),    header_->making_since.load(),
              header_->making_given_up.load(), header_->making_tag.load()};
  // It may have been made meanwhile, and another begun.
  if (header_->making_plus_one.load(std::memory_order_acquire) != plus_one) return std::nullopt;
  return seen;
}

std::optional<std::uint64_t> RecorderView::gave_up_making(std::uint64_t uid) const {
  const auto is_it = [&] {
    return header_->unmade_plus_one.load(std::memory_order_acquire) == uid + 1;
  };
  if (!is_it()) return std::nullopt;
  const std::uint64_t stamp = header_->unmade_at.load(std::memory_order_acquire);
  return is_it() ? std::optional(stamp) : std::nullopt;  // it may be another's by now
}

RecorderView::Method RecorderView::method(std::uint16_t number) const {
  if (number == 0 || number > header_->methods.size()) return {};
  const MethodName& name = header_->methods[number - 1u];
  return {name.path.load(), name.name.load()};
}

}  // namespace hymn
