#include "recorder/recorder_memory.hpp"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/tag_text.hpp"
#include "hymn/error.hpp"
#include "p2p/shm/reservation.hpp"
#include "recorder/rank_list.hpp"
#include "recorder/recorder_clock.hpp"
#include "topology/host.hpp"

namespace hymn {
namespace {

constexpr std::align_val_t alignment{64};

/// "" where it cannot be read, or does not fit.
std::string executable_path() {
  std::array<char, 255> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) == path.size()) return "";
  return {path.data(), static_cast<std::size_t>(length)};
}

std::uint64_t executable_base() {
  std::uint64_t base = 0;
  // The program comes first.
  const auto look = [](dl_phdr_info* module, std::size_t, void* found) {
    *static_cast<std::uint64_t*>(found) = module->dlpi_addr;
    return 1;
  };
  dl_iterate_phdr(look, &base);
  return base;
}

}  // namespace

GroupLineLease::~GroupLineLease() {
  if (owner_ != nullptr) owner_->give_back(*line_);
}

bool RecorderMemory::make_shared() {
  try {
    file_ = make_nameless_memory(bytes_, "recorder");
    mapping_ = SharedMapping(file_, bytes_);
    // A page that is missing when a call is recorded would kill the process.
    if (reserve_memory(mapping_, file_, 0, bytes_, 1, Need::all).bytes >= bytes_) return true;
  } catch (const ResourceError&) {
  }
  mapping_ = SharedMapping();
  file_ = Descriptor();
  return false;
}

RecorderMemory::RecorderMemory(const Setup& setup)
    : bytes_(sizeof(RecorderHeader) + CallRing::memory_bytes(setup.ring)), ring_([&] {
        if (setup.for_peers && make_shared()) {
          begin_ = mapping_.base();
        } else {
          heap_.reset(static_cast<std::byte*>(::operator new(bytes_, alignment)),
                      [](std::byte* memory) { ::operator delete(memory, alignment); });
          begin_ = heap_.get();
        }
        return CallRing::create(bytes().subspan(sizeof(RecorderHeader)), setup.ring, setup.writers);
      }()) {
  introduce(setup);
  ring_.set_timing(setup.timing);
  named_sites_.emplace(header_->sites);
  if (!file_) return;
  key_ = key_of(file_);
  exit_note_.emplace(*header_);
}

void RecorderMemory::introduce(const Setup& setup) {
  header_ = ::new (static_cast<void*>(begin_)) RecorderHeader();
  header_->layout = RecorderHeader::right_layout;
  for (GroupLine& line : header_->groups) spare_.push_back(&line);
  header_->rank = setup.rank;
  header_->world_size = setup.world_size;
  header_->pid = getpid();
  header_->bytes = bytes_;
  header_->capacity = setup.ring.entries;
  header_->frames = setup.ring.frames;
  header_->counts = setup.ring.counts;
  const ClockReading now = ClockReading::now();
  header_->made_stamp = now.stamp;
  header_->made_steady_ns = now.steady_ns;
  header_->made_wall_ns = now.wall_ns;
  header_->executable_base = executable_base();
  header_->host.store(host_name());
  header_->program.store(program_invocation_short_name);
  header_->executable.store(executable_path());
  header_->magic = RecorderHeader::right_magic;
}

// What is longer is not told.
std::string RecorderMemory::members_text(std::span<const int> members) {
  std::string ranks = pack_ranks(members);
  return ranks.size() < RecorderHeader::members_text ? ranks : "";
}

void RecorderMemory::begin_making(std::uint64_t uid, std::span<const int> members, MakingKind kind,
                                  std::string_view tag) {
  header_->making_plus_one.store(0, std::memory_order_release);
  header_->making_kind.store(kind, std::memory_order_release);
  header_->making_ranks.store(members_text(members));
  header_->making_tag.store(shown_tag(tag));
  header_->making_since.store(ClockReading::now().stamp, std::memory_order_release);
  header_->making_given_up.store(0, std::memory_order_release);
  header_->making_plus_one.store(uid + 1, std::memory_order_release);
}

void RecorderMemory::end_making(std::uint64_t uid, bool is_made) {
  std::uint64_t own = uid + 1;
  if (is_made) {
    header_->making_plus_one.compare_exchange_strong(own, 0, std::memory_order_acq_rel);
  } else if (header_->making_plus_one.load(std::memory_order_acquire) == own) {
    const std::uint64_t now = ClockReading::now().stamp;
    header_->making_given_up.store(now, std::memory_order_release);
    if (header_->making_kind.load(std::memory_order_acquire) != MakingKind::new_group) return;
    header_->unmade_plus_one.store(0, std::memory_order_release);
    header_->unmade_at.store(now, std::memory_order_release);
    header_->unmade_plus_one.store(own, std::memory_order_release);
  }
}

GroupLineLease RecorderMemory::take_line(std::uint64_t uid, std::string_view description,
                                         std::span<const int> members, bool shown) {
  const auto set_up = [&](GroupLine& line) {
    for (auto* count :
         {&line.collectives, &line.completed, &line.p2ps, &line.joins, &line.joined_at, &line.met})
      count->store(0, std::memory_order_relaxed);
    line.timeout_ns.store(CallRecord::no_timeout, std::memory_order_relaxed);
    line.flags.store(0, std::memory_order_relaxed);
    line.members.store(static_cast<std::uint32_t>(members.size()), std::memory_order_relaxed);
    line.description.store(description);
    line.uid_plus_one.store(uid + 1, std::memory_order_release);
  };
  if (shown) {
    const std::string ranks = members_text(members);
    std::lock_guard lock(mutex_);
    if (GroupLine* const line = take_spare(uid)) {
      line->uid_plus_one.store(0, std::memory_order_release);
      const auto index = static_cast<std::size_t>(line - header_->groups.data());
      header_->members[index].store(ranks);
      set_up(*line);
      return GroupLineLease(this, line);
    }
  }
  auto own = std::make_unique<GroupLine>();
  set_up(*own);
  return GroupLineLease(std::move(own));
}

// A group is known by one line; else the line goes that has told of its end for longest.
GroupLine* RecorderMemory::take_spare(std::uint64_t uid) {
  if (spare_.empty()) return nullptr;
  const auto had = std::find_if(spare_.begin(), spare_.end(), [uid](const GroupLine* line) {
    return line->uid_plus_one.load(std::memory_order_relaxed) == uid + 1;
  });
  const auto taken = had == spare_.end() ? spare_.begin() : had;
  GroupLine* const line = *taken;
  spare_.erase(taken);
  return line;
}

void RecorderMemory::give_back(GroupLine& line) {
  line.flags.fetch_or(GroupLine::ended, std::memory_order_acq_rel);
  std::lock_guard lock(mutex_);
  spare_.push_back(&line);
}

std::uint16_t RecorderMemory::method_number(std::string_view path, std::string_view method) {
  std::lock_guard lock(mutex_);
  std::uint16_t number = 1;
  for (MethodName& name : header_->methods) {
    const std::string known = name.name.load();
    if (known.empty()) {
      name.path.store(path);
      name.name.store(method);
      return number;
    }
    if (known == method && name.path.load() == path) return number;
    ++number;
  }
  return 0;
}

void RecorderMemory::note_dump() {
  header_->dumped_steady_ns.store(ClockReading::now().steady_ns, std::memory_order_release);
}

PeerRecorder::PeerRecorder(const MemoryKey& key) {
  const Descriptor file = open_nameless_memory(key);
  check_fixed_size(file, key);
  mapping_ = SharedMapping(file, key.bytes, SharedMapping::Access::read);
  view();
}

}  // namespace hymn
