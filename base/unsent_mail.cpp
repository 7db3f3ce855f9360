#include "base/unsent_mail.hpp"

#include <algorithm>

namespace hymn {

void UnsentMail::add(Sender& sender) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(senders_, &sender) == senders_.end()) senders_.push_back(&sender);
  count();
}

void UnsentMail::remove(Sender& sender) {
  const std::lock_guard lock(mutex_);
  std::erase(senders_, &sender);
  count();
}

// One thread is enough.
void UnsentMail::move_all() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  std::erase_if(senders_, [](Sender* sender) { return sender->move_unsent(); });
  count();
}

}  // namespace hymn
