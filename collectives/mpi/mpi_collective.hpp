// What the algorithms over MPI's own collectives have in common. Each of them posts MPI's
// non-blocking call when there is a deadline to keep, and makes the plain blocking call when there
// is none.
#pragma once

#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/mpi/mpi_custom.hpp"
#include "collectives/mpi/mpi_function.hpp"
#include "collectives/mpi/mpi_model.hpp"
#include "collectives/mpi/mpi_word.hpp"
#include "hymn/error.hpp"
#include "p2p/mpi/mpi_types.hpp"

namespace hymn {

/// Memory that MPI uses while an operation is in flight.
struct MpiKept {
  std::unique_ptr<std::byte[]> staging;   ///< accumulators
  std::unique_ptr<std::byte[]> received;  ///< results that are not received in place
  std::vector<int> counts;
  std::vector<int> displacements;
  std::unique_ptr<MpiCustom> custom;  ///< null: it reduces by none
};

/// The operation behind every MPI collective. `Steps` is the collective itself:
///   Steps(const Call&, MpiChannel&, MpiKept&)  prepares buffers, and reads no input
///   void call(How)                             MPI's call or calls, of an MpiFunction; How is
///                                              MpiBlocking or MpiPosting
///   void finish()                              what remains once the data is there
template <class Steps>
class MpiCollective final : public Operation {
 public:
  MpiCollective(MpiChannel& channel, GroupShape shape, const Call& call)
      : channel_(channel), word_(mpi_word_of(call)), steps_(call, shape, channel, kept_) {}

  void start() override {
    MpiGate::Entry entry(*channel_.gate);
    channel_.traffic.note_collective(word_);
    steps_.call(MpiPosting{requests_});
  }
  bool step() override {
    {
      MpiGate::Entry entry(*channel_.gate);
      if (!requests_.test()) return false;
    }
    steps_.finish();
    return true;
  }
  bool can_block() const override { return true; }
  void run() override {
    {
      MpiGate::Entry entry(*channel_.gate);
      channel_.traffic.note_collective(word_);
      steps_.call(MpiBlocking{});
    }
    steps_.finish();
  }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    if (requests_.empty()) return nullptr;
    return keep_requests(std::move(requests_), std::move(kept_), channel_.gate);
  }

 private:
  MpiChannel& channel_;  // lives as long as the group
  std::uint64_t word_;
  MpiKept kept_;
  Steps steps_;
  MpiRequests requests_;
};

/// The algorithm around it. Steps also says what it is:
///   static constexpr OpTypes serves
///   static Verdict can_run(const Request&, GroupShape, std::size_t chunk_limit)
template <class Steps>
class MpiAlgorithm final : public Algorithm {
 public:
  MpiAlgorithm(std::shared_ptr<MpiChannel> channel, GroupShape shape)
      : Algorithm(mpi_model, Steps::serves), channel_(std::move(channel)), shape_(shape) {}

  Verdict can_run(const Request& request) const override {
    Verdict known = knows_types(request);
    return known.ok ? Steps::can_run(request, shape_, channel_->chunk_limit) : known;
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<MpiCollective<Steps>>(*channel_, shape_, call);
  }

 private:
  std::shared_ptr<MpiChannel> channel_;
  GroupShape shape_;
};

/// Calls post(offset, count) for each run of at most `limit` of `total` elements; once for none.
template <class Post>
void for_each_chunk(std::size_t total, std::size_t limit, Post&& post) {
  std::size_t offset = 0;
  do {
    const std::size_t count = total - offset < limit ? total - offset : limit;
    post(offset, static_cast<int>(count));
    offset += count;
  } while (offset < total);
}

/// For collectives whose blocks MPI must be able to count in one call.
inline Verdict fits_one_call(std::size_t count, std::size_t limit) {
  if (count <= limit) return Verdict::yes();
  return Verdict::no("more than " + std::to_string(limit) + " elements for one MPI call");
}

inline Verdict wants_one_buffer() { return Verdict::no("a list of buffers: MPI takes one"); }

/// Keeps the counts of Layout::counted, and their displacements, as MPI takes them.
inline void keep_counts(MpiKept& kept, std::span<const std::size_t> counts) {
  int displacement = 0;
  for (const std::size_t count : counts) {
    kept.counts.push_back(static_cast<int>(count));
    kept.displacements.push_back(displacement);
    displacement += static_cast<int>(count);
  }
}

/// Calls with(count) for equal blocks, with(counts, displacements) for those that `kept` has:
/// what MPI takes in the same place of both functions.
template <class With>
void with_counts(bool equal, int count, const MpiKept& kept, With&& with) {
  if (equal)
    with(count);
  else
    with(kept.counts.data(), kept.displacements.data());
}

/// MPI wants MPI_IN_PLACE on all ranks or on none, while here each rank chooses: so algorithms give
/// it on all of them, and a rank whose input lies elsewhere brings it to where MPI looks for it,
/// which is the copy that MPI would make. `to` holds as many elements. The caller holds a gate
/// entry.
void bring_into_place(const ConstBufferView& from, const BufferView& to, const MpiChannel& channel,
                      int group_rank);

/// Where MPI is to send from where it is not to see that both are the same: so it is for buffers
/// without elements, which may begin anywhere.
inline const void* apart_from(const void* target, const void* source) {
  static constexpr std::byte elsewhere[64] = {};
  return source == target ? elsewhere : source;
}

void add_mpi_algorithms(Algorithms& algorithms, const std::shared_ptr<MpiChannel>& channel,
                        GroupShape shape);

std::unique_ptr<Algorithm> make_all_reduce_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_reduce_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_reduce_scatter_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_broadcast_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_gather_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_scatter_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_all_gather_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_all_to_all_mpi(std::shared_ptr<MpiChannel>, GroupShape);
std::unique_ptr<Algorithm> make_barrier_mpi(std::shared_ptr<MpiChannel>, GroupShape);

}  // namespace hymn
