#include "p2p/tcp/tcp_streams.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "hymn/error.hpp"

namespace hymn::tcp {
namespace {

constexpr std::size_t written_at_once = 2 * part_limit;  // to each
constexpr Duration between_attempts = std::chrono::seconds(1);
// What is lost so soon after another is lost for the same reason, most likely.
constexpr Duration losses_are_one = std::chrono::seconds(10);
constexpr Duration first_loss_pause = std::chrono::milliseconds(20);
constexpr Duration longest_loss_pause = std::chrono::seconds(5);

}  // namespace

class Streams::Stream final : Reader::Ear {
 public:
  /// `contact`: of one that this rank makes.
  Stream(Streams& all, Descriptor socket, std::uint64_t number, std::optional<Contact> contact)
      : all_(all), socket_(std::move(socket)), number_(number), contact_(contact) {}
  ~Stream() override {
    if (socket_) all_.poller_.remove(socket_.number());
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::uint64_t number() const { return number_; }
  /// Both know that both have proved themselves: it carries something, and its end is a loss.
  bool is_welcome() const { return is_welcome_; }
  bool awaits_welcome() const { return contact_ && !is_welcome_; }
  bool is_late(TimePoint now) const {
    return awaits_welcome() && now - since_ > all_.site_.limits.connecting;
  }
  bool watch_first() {
    watched_ = contact_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
    return all_.poller_.add(socket_.number(), Owner::stream, number_of(all_.rank_, number_),
                            watched_);
  }
  /// It is a listener's.
  void welcome(const Contact& contact) {
    is_connected_ = true;
    greet(welcome_of(all_.site_.token, contact, all_.site_.limits.streams));
  }

  void on_event(std::uint32_t events, std::span<std::byte> scratch) {
    if (!is_connected_) return end_connecting();
    if ((events & ~std::uint32_t{EPOLLOUT}) == 0) return;
    const Moved got = reader_.read(socket_.number(), scratch);
    if (got.over) throw NetworkError(got.problem);
  }
  void flush() {
    if (!is_connected_) return;
    for (std::size_t moved = 0; moved < written_at_once;) {
      if (is_welcome_) all_.outlet_.hand_out(part());
      std::array<iovec, 3> pieces;
      std::size_t count = 0;
      if (!greeting_.empty()) pieces[count++] = bytes_at(greeting_.data(), greeting_.size());
      count += part().gather(std::span(pieces).subspan(count));
      if (count == 0) break;
      const Moved put = write_some(socket_.number(), std::span(pieces).first(count));
      if (put.over) throw NetworkError(put.problem);
      if (put.bytes == 0) break;
      written(put.bytes);
      moved += put.bytes;
    }
    watch();
  }
  void watch() {
    const bool has_more = is_welcome_ && all_.outlet_.has_parts();
    const bool writes = !is_connected_ || !greeting_.empty() || !part().is_empty() || has_more;
    const std::uint32_t wanted = writes ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (wanted == watched_) return;
    watched_ = wanted;
    all_.poller_.change(socket_.number(), Owner::stream, number_of(all_.rank_, number_), wanted);
  }
  bool is_drained() const {
    int waiting = 0;
    return part().is_empty() &&
           (::ioctl(socket_.number(), SIOCOUTQ, &waiting) != 0 || waiting == 0);
  }
  void close_in_child() { socket_ = {}; }
  void cut() const { ::shutdown(socket_.number(), SHUT_RDWR); }

 private:
  std::size_t head_size() const override { return awaits_welcome() ? welcome_bytes : head_bytes; }
  void hear(std::span<const std::byte> head) override {
    if (awaits_welcome()) {
      read_welcome(head.first<welcome_bytes>(), all_.site_.token, *contact_);
      is_welcome_ = true;
      greet(head_of({.kind = FrameKind::data}));  // of nothing
      return;
    }
    is_welcome_ = true;
    const Frame frame = read_head(head.first<head_bytes>());
    if (frame.kind != FrameKind::data) throw NetworkError("only parts of messages come by streams");
    all_.inlet_.begin(frame, reader_.payload());
  }
  void end_connecting() {
    if (const int problem = end_of_connect(socket_.number()); problem != 0)
      throw NetworkError(std::generic_category().message(problem));
    is_connected_ = true;
    greet(hello_of(all_.site_.token, *contact_));
  }
  void greet(std::span<const std::byte> greeting) {
    greeting_.assign(greeting.begin(), greeting.end());
  }
  Part& part() const { return all_.outlet_.part_of(number_); }
  void written(std::size_t bytes) {
    const std::size_t of_greeting = std::min(bytes, greeting_.size());
    greeting_.erase(greeting_.begin(),
                    greeting_.begin() + static_cast<std::ptrdiff_t>(of_greeting));
    part().written(bytes - of_greeting);
  }

  Streams& all_;
  Descriptor socket_;
  const std::uint64_t number_;
  const std::optional<Contact> contact_;
  const TimePoint since_ = std::chrono::steady_clock::now();
  bool is_connected_ = false;
  bool is_welcome_ = false;
  std::uint32_t watched_ = 0;
  std::vector<std::byte> greeting_{};  ///< what is left to be said of it
  Reader reader_{all_.inlet_, *this};
};

Streams::Streams(int rank, const LinkSite& site, Poller& poller, Outlet& outlet, Inlet& inlet)
    : rank_(rank), site_(site), poller_(poller), outlet_(outlet), inlet_(inlet) {}

Streams::~Streams() = default;

Streams::Stream* Streams::find(std::uint64_t stream) const {
  return stream < all_.size() ? all_[stream].get() : nullptr;
}

// --- Its beginning ---

void Streams::make(const Address& address, const Contact& main, std::uint64_t count) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (now < next_attempt_ || now < next_after_loss_) return;
  next_attempt_ = now + between_attempts;
  ++attempt_;
  for (std::uint32_t stream = 1; stream < std::min(count, most_streams); ++stream)
    if (find(stream) == nullptr) begin(stream, address, main);
}

void Streams::begin(std::uint32_t stream, const Address& address, Contact contact) {
  contact.stream = stream;
  contact.attempt = attempt_;
  contact.nonce = random_nonce();
  try {
    if (!add(std::make_unique<Stream>(*this, begin_connect(address), stream, contact)))
      do_without(stream, "no memory for a connection");
  } catch (const Error& error) {
    do_without(stream, error.problem());
  }
}

bool Streams::add(std::unique_ptr<Stream> stream) {
  const std::uint64_t number = stream->number();
  if (number >= all_.size()) all_.resize(number + 1);
  outlet_.part_of(number);  // for which there is memory, from now on
  if (!stream->watch_first()) return false;
  all_[number] = std::move(stream);
  return true;
}

// Who makes one again has given up the one before, on which nothing was said.
void Streams::join(Descriptor socket, const Contact& contact) {
  if (contact.stream >= site_.limits.streams) throw NetworkError("no more streams are wanted");
  std::uint32_t& heard = heard_[contact.stream];
  const Stream* const before = find(contact.stream);
  if (contact.attempt <= heard || (before != nullptr && before->is_welcome()))
    throw NetworkError("a hello was said a second time");
  heard = contact.attempt;
  if (before != nullptr) all_[contact.stream].reset();
  auto stream = std::make_unique<Stream>(*this, std::move(socket), contact.stream, std::nullopt);
  stream->welcome(contact);
  if (!add(std::move(stream))) throw NetworkError("no memory for a connection");
  on_event(contact.stream, 0, {});
}

// --- Its end ---

void Streams::on_event(std::uint64_t number, std::uint32_t events, std::span<std::byte> scratch) {
  Stream* const stream = find(number);
  if (stream == nullptr) return;
  try {
    stream->on_event(events, scratch);
    stream->flush();
  } catch (const NetworkError& error) {
    if (stream->is_welcome()) throw;
    drop(number, error.problem());
  }
}

// What has been begun on one that is not welcome is a greeting, and nothing else.
void Streams::drop(std::uint64_t stream, const std::string& why) {
  all_[stream].reset();
  do_without(stream, why);
}

void Streams::do_without(std::uint64_t stream, const std::string& why) {
  if (std::exchange(has_told_, true)) return;
  site_.logger.info(fmt::format("stream {} to rank {} is done without: {}", stream, rank_, why));
}

void Streams::watch() {
  for (const auto& stream : all_)
    if (stream) stream->watch();
}

bool Streams::is_restless() const {
  return std::ranges::any_of(all_, [](const auto& one) { return one && one->awaits_welcome(); });
}

void Streams::look_after(TimePoint now) {
  for (std::uint64_t number = 1; number < all_.size(); ++number)
    if (all_[number] && all_[number]->is_late(now)) drop(number, "nobody answers there");
}

bool Streams::is_drained() const {
  return std::ranges::all_of(all_, [](const auto& one) { return !one || one->is_drained(); });
}

void Streams::close() {
  all_.clear();
  heard_ = {};
  next_attempt_ = {};
}

void Streams::lose(std::string_view why) noexcept {
  close();
  const TimePoint now = std::chrono::steady_clock::now();
  const bool is_again = now - lost_at_ < losses_are_one;
  pause_ = is_again ? std::clamp(2 * pause_, first_loss_pause, longest_loss_pause) : Duration{};
  lost_at_ = now;
  next_after_loss_ = now + pause_;
  if (pause_ < longest_loss_pause || std::exchange(has_told_losses_, true)) return;
  try {
    site_.logger.info(fmt::format(
        "streams to rank {} are lost again and again, and made less often: {}", rank_, why));
  } catch (const std::exception&) {  // it is not told then
  }
}

void Streams::close_in_child() {
  for (const auto& stream : all_)
    if (stream) stream->close_in_child();
}

std::uint64_t Streams::count() const {
  return 1 + static_cast<std::uint64_t>(std::ranges::count_if(
                 all_, [](const auto& one) { return one && one->is_welcome(); }));
}

void Streams::cut(std::uint64_t stream) const {
  if (const Stream* const one = find(stream)) one->cut();
}

}  // namespace hymn::tcp
