// Several small collectives as one: their buffers are copied into one, which is sent, and what
// comes is copied back.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "collectives/algorithm.hpp"

namespace hymn {

/// How much is put into one bundle. All members of a group use the same.
struct BundleLimits {
  std::size_t each = std::size_t{32} << 10;     ///< bytes of a call that goes into one
  std::size_t together = std::size_t{1} << 20;  ///< bytes of all calls in one
  friend bool operator==(const BundleLimits&, const BundleLimits&) = default;
};

/// Bytes of the larger side of a call of which each side is one flat buffer; of those that cannot
/// go into a bundle more than any limit. The same on all members.
std::size_t bundled_bytes(const Request& request, int members);

/// Calls of one kind, dtype, reduction and root, each of which has bundled_bytes(), in host memory.
class Bundle {
 public:
  Bundle(GroupShape shape, bool is_root) : shape_(shape), is_root_(is_root) {}
  Bundle(const Bundle&) = delete;
  Bundle& operator=(const Bundle&) = delete;

  void add(const Request& request);
  std::size_t calls() const { return calls_.size(); }
  std::size_t bytes() const { return bytes_; }

  /// After the last add(): what is carried out in place of them. Theirs need not live any more.
  const Request& close();
  /// Once the inputs may be read, and before it starts.
  void pack();
  /// When it has completed.
  void unpack();

 private:
  struct Buffers {
    const std::byte* in;
    std::byte* out;
    std::size_t each;  ///< bytes of one block
  };
  std::size_t in_blocks() const;
  std::size_t out_blocks() const;
  bool is_apart() const;
  std::byte* packed_input();

  GroupShape shape_;
  bool is_root_;
  std::vector<Buffers> calls_;
  std::size_t each_ = 0;  // bytes of one block of all calls
  std::size_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  Request request_;
};

}  // namespace hymn
