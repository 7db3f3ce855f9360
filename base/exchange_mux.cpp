#include "base/exchange_mux.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace hymn {

// --- NumberSet

void NumberSet::add(std::uint64_t number) {
  if (contains(number)) return;
  const auto after = last_of_.upper_bound(number);
  std::uint64_t last = number;
  if (after != last_of_.end() && after->first == number + 1) {
    last = after->second;
    last_of_.erase(after);
  }
  const auto before = last_of_.upper_bound(number);
  if (before != last_of_.begin() && std::prev(before)->second + 1 == number)
    std::prev(before)->second = last;
  else
    last_of_[number] = last;
  if (last_of_.size() <= most_ranges) return;
  for (auto low = last_of_.begin(), high = std::next(low); high != last_of_.end(); low = high++) {
    if (high->first - low->second >= far_apart) continue;
    low->second = high->second;
    last_of_.erase(high);
    return;
  }
}

bool NumberSet::contains(std::uint64_t number) const {
  const auto after = last_of_.upper_bound(number);
  return after != last_of_.begin() && number <= std::prev(after)->second;
}

// --- The exchange of one channel

class ExchangeMux::Channel final : public Exchange {
 public:
  Channel(std::shared_ptr<ExchangeMux> mux, std::uint64_t id) : mux_(std::move(mux)), id_(id) {}
  ~Channel() override { mux_->pass_over(id_); }

  int rank() const override { return mux_->exchange_->rank(); }
  int size() const override { return mux_->exchange_->size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    mux_->send(to, {mux_->world_, id_, tag}, bytes);
  }
  std::uint64_t send_numbered(int to, std::uint64_t tag,
                              std::span<const std::byte> bytes) override {
    return mux_->send(to, {mux_->world_, id_, tag}, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return mux_->try_receive(from, id_, tag);
  }
  bool has_left(std::uint64_t number) override { return mux_->exchange_->has_left(number); }
  bool await_news(Duration limit) override { return mux_->exchange_->await_news(limit); }
  std::string name() const override { return mux_->exchange_->name(); }
  bool is_open() const override { return mux_->exchange_->is_open(); }

 private:
  const std::shared_ptr<ExchangeMux> mux_;
  const std::uint64_t id_;
};

// --- All of them

std::shared_ptr<ExchangeMux> ExchangeMux::over(std::shared_ptr<Exchange> exchange,
                                               std::function<void(const std::string&)> tell) {
  const std::uint64_t world =
      std::atomic_ref(exchange->worlds_).fetch_add(1, std::memory_order_relaxed) + 1;
  return std::shared_ptr<ExchangeMux>(new ExchangeMux(std::move(exchange), world, std::move(tell)));
}

ExchangeMux::ExchangeMux(std::shared_ptr<Exchange> exchange, std::uint64_t world,
                         std::function<void(const std::string&)> tell)
    : exchange_(std::move(exchange)), world_(world), tell_(std::move(tell)) {}

ExchangeMux::~ExchangeMux() { end_mail(); }

void ExchangeMux::set_mail(std::shared_ptr<UnsentMail> mail, MailRules rules) {
  bool has_some = false;
  {
    const std::lock_guard lock(mutex_);
    mail_ = mail;
    rules_ = std::move(rules);
    has_some = !unsent_.empty();
  }
  if (has_some) mail->add(*this);
}

void ExchangeMux::end_mail() {
  std::shared_ptr<UnsentMail> mail;
  {
    const std::lock_guard lock(mutex_);
    mail = std::exchange(mail_, nullptr);
  }
  if (!mail) return;
  mail->remove(*this);
  const std::lock_guard lock(mutex_);
  rules_ = {};
  unsent_.clear();
}

std::shared_ptr<Exchange> ExchangeMux::channel(std::uint64_t id) {
  const auto self = shared_from_this();
  std::lock_guard lock(mutex_);
  if (const auto known = open_.find(id); known != open_.end())
    if (auto open = known->second.lock()) return open;
  if (ended_.contains(id)) throw UsageError(fmt::format("group {} has been before", id));
  auto made = std::make_shared<Channel>(self, id);
  open_[id] = made;
  awaited_.erase(id);
  return made;
}

void ExchangeMux::pass_over(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  open_.erase(id);
  ended_.add(id);
  awaited_.erase(id);
  const auto found = arrived_.find(id);
  if (found == arrived_.end()) return;
  drop(found->second.size(), fmt::format("group {} has ended", id));
  arrived_.erase(found);
}

std::uint64_t ExchangeMux::send(int to, const Identity& identity,
                                std::span<const std::byte> bytes) {
  std::vector<std::byte> message;
  message.reserve(bytes.size() + sizeof identity);
  message.assign(bytes.begin(), bytes.end());
  const auto words = std::as_bytes(std::span(&identity, 1));
  message.insert(message.end(), words.begin(), words.end());
  const std::uint64_t number = exchange_->send_numbered(to, world_, message);
  if (!has_left(number)) note_unsent({to, number});
  return number;
}

// It may fail of any message: whoever sends to, or receives from, that rank hears of it.
bool ExchangeMux::has_left(std::uint64_t number) noexcept {
  try {
    return exchange_->has_left(number);
  } catch (...) {
    return false;
  }
}

void ExchangeMux::note_unsent(const Letter& letter) {
  std::shared_ptr<UnsentMail> mail;
  {
    const std::lock_guard lock(mutex_);
    unsent_.push_back(letter);
    mail = mail_;
  }
  if (mail) mail->add(*this);
}

bool ExchangeMux::move_unsent() noexcept {
  // Where a peer is stopped there may be very many.
  constexpr std::size_t most_asked = 16;
  const std::lock_guard lock(mutex_);
  if (!mail_ || !exchange_->is_open()) unsent_.clear();
  if (unsent_.empty() || !rules_.may_move()) return unsent_.empty();
  for (std::size_t left = std::min(unsent_.size(), most_asked); left > 0; --left) {
    if (turn_ >= unsent_.size()) turn_ = 0;
    Letter& letter = unsent_[turn_];
    if (!has_left(letter.number) && !rules_.is_gone(letter.to)) {
      ++turn_;
      continue;
    }
    letter = unsent_.back();
    unsent_.pop_back();
  }
  return unsent_.empty();
}

// Whoever asks first sorts for all; who asked for what has come takes it.
std::optional<ExchangeMessage> ExchangeMux::try_receive(int from, std::uint64_t channel,
                                                        std::uint64_t tag) {
  std::lock_guard lock(mutex_);
  while (true) {
    if (const auto queues = arrived_.find(channel); queues != arrived_.end())
      if (auto message = queues->second.take(from, tag)) {
        if (queues->second.size() == 0) arrived_.erase(queues);
        return message;
      }
    auto come = exchange_->try_receive(from, world_);
    if (!come) return std::nullopt;
    sort(std::move(*come));
  }
}

void ExchangeMux::sort(ExchangeMessage message) {
  Identity identity{};
  if (message.bytes.size() < sizeof identity)
    return drop(1, fmt::format("rank {} has sent it without saying whose it is", message.source));
  const std::size_t bytes = message.bytes.size() - sizeof identity;
  std::memcpy(&identity, message.bytes.data() + bytes, sizeof identity);
  if (identity.world != world_)
    return drop(1, fmt::format("it belongs to world {}, and this is {}", identity.world, world_));
  const bool is_open = open_.contains(identity.channel);
  if (!is_open && ended_.contains(identity.channel))
    return drop(1, fmt::format("group {} has ended", identity.channel));
  message.bytes.resize(bytes);
  arrived_[identity.channel].add(identity.tag, std::move(message));
  if (!is_open) keep_few_awaited(identity.channel);
}

// Those who were to make a group with this rank may have died, or given up.
void ExchangeMux::keep_few_awaited(std::uint64_t id) {
  awaited_.try_emplace(id, {});
  if (awaited_.size() <= most_awaited) return;
  const std::uint64_t oldest = awaited_.begin()->first;
  awaited_.erase(oldest);
  const auto queues = arrived_.extract(oldest);
  if (!queues.empty()) drop(queues.mapped().size(), fmt::format("group {} was never made", oldest));
}

void ExchangeMux::drop(std::size_t messages, const std::string& why) {
  if (messages == 0) return;
  dropped_ += messages;
  if (tell_) tell_(fmt::format("{} message(s) dropped: {}", messages, why));
}

void ExchangeMux::count_dropped(std::uint64_t id, std::size_t messages) {
  std::lock_guard lock(mutex_);
  drop(messages, fmt::format("group {} has ended", id));
}

std::uint64_t ExchangeMux::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

std::size_t ExchangeMux::remembered() const {
  std::lock_guard lock(mutex_);
  return open_.size() + ended_.ranges();
}

std::size_t ExchangeMux::held() const {
  std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const auto& [channel, queues] : arrived_) all += queues.size();
  return all;
}

}  // namespace hymn
