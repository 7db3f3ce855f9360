// A ring of calls in memory of its own.
#pragma once

#include <memory>
#include <new>
#include <span>

#include "recorder/call_ring.hpp"

namespace hymn::test {

class OwnRing {
 public:
  explicit OwnRing(CallRing::Size size = {})
      : bytes_(CallRing::memory_bytes(size)),
        memory_(static_cast<std::byte*>(::operator new(bytes_, alignment))),
        ring_(CallRing::create({memory_.get(), bytes_}, size)) {}
  std::span<const std::byte> memory() const { return {memory_.get(), bytes_}; }
  CallRing* operator->() { return &ring_; }
  CallRing& operator*() { return ring_; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
  CallRing ring_;
};

}  // namespace hymn::test
