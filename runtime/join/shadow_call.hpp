// A collective that a rank which has run out of input makes beside those that still run, known from
// what one of them has recorded of it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/algorithm.hpp"
#include "hymn/join.hpp"
#include "recorder/call_record.hpp"

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

/// Holds buffers of its own: inputs that change no result (where nothing is reduced, what the
/// options say), and outputs that nobody looks at.
class ShadowCall {
 public:
  /// `rank` is this one, `shape` the group's. Throws UnsupportedError where the record does not
  /// tell enough, or where this rank would have to give what it does not have; it says which.
  ShadowCall(const CallRecord& record, int rank, GroupShape shape, const ShadowOptions& options,
             ShadowMemory memory = {});
  ShadowCall(const ShadowCall&) = delete;
  ShadowCall& operator=(const ShadowCall&) = delete;

  /// The views in it are of this object's memory.
  const Request& request() const { return request_; }
  /// For the next one, when the call has completed.
  ShadowMemory take_memory() { return std::move(memory_); }

 private:
  Request reduction(const CallRecord& record, bool is_root);
  Request movement(const CallRecord& record, bool is_root);
  InputBlocks input_blocks(const CallSide& side);
  OutputBlocks output_blocks(const CallSide& side);
  /// What a root gives that has nothing to give. Throws where the options do not say.
  double root_fill(const CallRecord& record) const;
  void fill_given(const CallRecord& record, const ShadowMemory::Content& content);
  void fill_number(const CallRecord& record, std::span<std::byte> memory, double number) const;
  ConstBufferView input(std::size_t count);
  BufferView output(std::size_t count);

  GroupShape shape_;
  ShadowOptions options_;
  DataType dtype_;
  ShadowMemory memory_;
  std::span<std::byte> given_;  // as much of that as the call needs
  std::span<std::byte> taken_;
  std::vector<ConstBufferView> given_list_;
  std::vector<BufferView> taken_list_;
  Request request_;
};

}  // namespace hymn
