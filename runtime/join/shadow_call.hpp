// A collective that a rank which has run out of input makes beside those that still run, known from
// what one of them has recorded of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/layout.hpp"
#include "hymn/join.hpp"
#include "recorder/call_snapshot.hpp"

namespace hymn {

/// What a shadowed call needs of memory. The next one is given it again: new memory has to be
/// cleared by the kernel, which takes longer than most calls do.
struct ShadowMemory {
  /// Every element is the same.
  struct Content {
    DataType dtype = DataType::uint8;
    std::optional<ReduceKind> identity_of{};
    double number = 0;  ///< where it is no identity
    friend bool operator==(const Content&, const Content&) = default;
  };
  std::vector<std::byte> given{};
  std::vector<std::byte> taken{};
  Content content{};       ///< of `given`
  std::size_t filled = 0;  ///< bytes of it that hold that
};

/// A collective as those have recorded it that make it themselves.
struct MadeCall {
  /// What all make alike. Of a rooted call the root's, where that is known.
  const SeenCall* one = nullptr;
  /// By group rank, where depends_on_all(); null: that one has run out.
  std::vector<const SeenCall*> all{};
};

/// Whether one rank's record does not tell how much the others give to, and get from, any other.
bool depends_on_all(const CallRecord& record);
/// Whether it tells how the blocks lie of which only the root has any.
bool tells_blocks(const CallRecord& record);

/// The single calls of one that was coalesced. Throws UnsupportedError where the record does not
/// tell them.
std::vector<SeenCall> single_calls_of(const SeenCall& coalesced);

/// Holds buffers of its own: inputs that change no result (where nothing is reduced, what the
/// options say), and outputs that nobody looks at.
class ShadowCall {
 public:
  /// `rank` is this one, `shape` the group's. Throws UnsupportedError where the records do not
  /// tell enough, or where this rank would have to give what it does not have; it says which.
  ShadowCall(const MadeCall& made, int rank, GroupShape shape, const ShadowOptions& options,
             ShadowMemory memory = {});
  ShadowCall(const ShadowCall&) = delete;
  ShadowCall& operator=(const ShadowCall&) = delete;

  /// The views in it are of this object's memory.
  const Request& request() const { return request_; }
  /// For the next one, when the call has completed.
  ShadowMemory take_memory() { return std::move(memory_); }

 private:
  using Sizes = std::vector<std::size_t>;
  using Side = CallSide CallRecord::*;
  Request request_for(const MadeCall& made, bool is_root);
  Request scatter(const MadeCall& made, bool is_root);
  Request gather(const MadeCall& made, bool is_root);
  Request all_gather(const SeenCall& call);
  Request reduce_scatter(const SeenCall& call);
  Request all_to_all(const MadeCall& made);
  /// Of the blocks on that side of the one who has made this call.
  Sizes sizes_of(const SeenCall& call, Side side) const;
  /// Of the root's blocks, of which each rank has its own on the other side.
  Sizes rooted_sizes(const MadeCall& made, Side blocks, Side own) const;
  std::size_t mine(const Sizes& sizes) const {
    return sizes[static_cast<std::size_t>(shape_.rank)];
  }
  /// `are_here`: this rank has them, and not another one.
  InputBlocks input_blocks(Layout layout, Sizes sizes, bool are_here = true);
  OutputBlocks output_blocks(Layout layout, Sizes sizes, bool are_here = true);
  /// What a root gives that has nothing to give. Throws where the options do not say.
  double root_fill(const CallRecord& record) const;
  void fill_given(const CallRecord& record, const ShadowMemory::Content& content);
  void fill_number(const CallRecord& record, std::span<std::byte> memory, double number) const;
  /// As the others' buffers say how they lie: what is read there is found alike by all.
  void lay_out(std::uint64_t order);
  ConstBufferView input(std::size_t count);
  BufferView output(std::size_t count);

  GroupShape shape_;
  ShadowOptions options_;
  DataType dtype_;
  ShadowMemory memory_;
  std::span<std::byte> given_;  // as much of that as the call needs
  std::span<std::byte> taken_;
  Sizes given_sizes_;
  Sizes taken_sizes_;
  std::vector<ConstBufferView> given_list_;
  std::vector<BufferView> taken_list_;
  SomeLayout layout_;
  Request request_;
};

}  // namespace hymn
