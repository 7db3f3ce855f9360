// Messages that need further calls to get where they are to go: whoever waits for anything makes
// them, whatever has become of the operation that has sent them.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <vector>

namespace hymn {

/// Of one rank. Thread-safe.
class UnsentMail {
 public:
  /// Who holds some, and knows which threads may move it.
  class Sender {
   public:
    /// True when there is none left. Never throws, nor calls what it is called by.
    virtual bool move_unsent() noexcept = 0;

   protected:
    ~Sender() = default;
  };

  UnsentMail() = default;
  UnsentMail(const UnsentMail&) = delete;
  UnsentMail& operator=(const UnsentMail&) = delete;

  bool is_empty() const { return count_.load(std::memory_order_acquire) == 0; }
  /// It has some. Not within a lock that move_unsent() takes.
  void add(Sender& sender);
  /// Before it ends; waits for calls of it.
  void remove(Sender& sender);
  void move() {
    if (!is_empty()) [[unlikely]]
      move_all();
  }

 private:
  void move_all();
  void count() { count_.store(senders_.size(), std::memory_order_release); }

  std::mutex mutex_;
  std::vector<Sender*> senders_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace hymn
