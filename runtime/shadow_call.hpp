// A collective that a rank which has run out of input makes beside those that still run, known from
// what one of them has recorded of it.
#pragma once

#include <cstddef>
#include <vector>

#include "collectives/algorithm.hpp"
#include "hymn/join.hpp"
#include "runtime/call_record.hpp"

namespace hymn {

/// Holds buffers of its own: inputs that change no result (where nothing is reduced, what the
/// options say), and outputs that nobody looks at.
class ShadowCall {
 public:
  /// `rank` is this one, `shape` the group's. Throws UnsupportedError where the record does not
  /// tell enough, or where this rank would have to give what it does not have; it says which.
  ShadowCall(const CallRecord& record, int rank, GroupShape shape, const ShadowOptions& options);
  ShadowCall(const ShadowCall&) = delete;
  ShadowCall& operator=(const ShadowCall&) = delete;

  /// The views in it are of this object's memory.
  const Request& request() const { return request_; }

 private:
  Request reduction(const CallRecord& record, bool is_root);
  Request movement(const CallRecord& record, bool is_root);
  InputBlocks input_blocks(const CallSide& side);
  OutputBlocks output_blocks(const CallSide& side);
  /// What a root gives that has nothing to give. Throws where the options do not say.
  void fill_root(const CallRecord& record, std::span<std::byte> memory) const;
  void fill(const CallRecord& record, std::span<std::byte> memory, double value) const;
  ConstBufferView input(std::size_t count);
  BufferView output(std::size_t count);

  GroupShape shape_;
  ShadowOptions options_;
  DataType dtype_;
  std::vector<std::byte> given_;
  std::vector<std::byte> taken_;
  std::vector<ConstBufferView> given_list_;
  std::vector<BufferView> taken_list_;
  Request request_;
};

}  // namespace hymn
