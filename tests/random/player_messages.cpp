// Sends and receives of random programs. Their tag is the number of the step.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/random/player.hpp"

namespace hymn::test {
namespace {

/// A buffer that has received something, or will.
class Mail {
 public:
  Mail(std::size_t count, int tag) : buffer_(DataType::uint8, count), tag_(tag) {}
  Buffer& buffer() { return buffer_; }

  void check(const RecvStatus& status, int from, std::size_t count, int salt) {
    EXPECT_EQ(status.source, from);
    EXPECT_EQ(status.tag, tag_);
    EXPECT_EQ(status.count, count);
    expect_filled(buffer_.slice(0, count), from, salt);
    expect_untouched(buffer_.slice(count, buffer_.count() - count));
    EXPECT_TRUE(buffer_.guards_intact());
  }

 private:
  Buffer buffer_;
  int tag_;
};

std::shared_ptr<Buffer> written(int from, std::size_t count, int salt, std::size_t offset) {
  auto buffer = std::make_shared<Buffer>(DataType::uint8, count, offset);
  fill(*buffer, from, salt);
  buffer->protect();
  return buffer;
}

}  // namespace

Player::Letter Player::draw_letter(const Step& step) {
  const std::vector<int>& members = script_.groups[step.group].members;
  Letter letter;
  letter.from = common_.one_of(members);
  letter.to = common_.one_of(members);
  letter.count = draw_count(common_, 1, 1);
  letter.salt = static_cast<int>(common_.below(1000));
  return letter;
}

void Player::send(const Step& step, const Letter& letter) {
  const auto buffer = written(letter.from, letter.count, letter.salt, own_.below(64));
  ProcessGroup& group = this->group(step.group);
  const ConstBufferView view = *buffer;
  if (is_refused(step.group, Request::send(view, letter.to, step.number))) return;
  Flight flight{
      .step = step.number,
      .group = step.group,
      .what = fmt::format("send of {} bytes from {} to {}", letter.count, letter.from, letter.to)};
  flight.check = [buffer, letter](std::span<const RecvStatus>) {
    expect_filled(*buffer, letter.from, letter.salt);
  };
  run_or_start(
      std::move(flight),
      [&]() -> std::vector<RecvStatus> {
        group.send(view, letter.to, step.number);
        return {};
      },
      [&] { return group.isend(view, letter.to, step.number); });
}

void Player::receive(const Step& step, const Letter& letter) {
  const auto mail =
      std::make_shared<Mail>(letter.count + (own_.one_in(3) ? own_.below(100) : 0), step.number);
  ProcessGroup& group = this->group(step.group);
  const BufferView view = mail->buffer();
  const int source = own_.one_in(5) ? any_source : letter.from;
  if (is_refused(step.group, Request::recv(view, source, step.number))) return;
  if (own_.one_in(5)) probe(step, letter, source);
  Flight flight{.step = step.number,
                .group = step.group,
                .what = fmt::format("receive of {} bytes from {} at {}", letter.count, letter.from,
                                    letter.to)};
  flight.check = [mail, letter](std::span<const RecvStatus> statuses) {
    mail->check(statuses.front(), letter.from, letter.count, letter.salt);
  };
  run_or_start(
      std::move(flight),
      [&]() -> std::vector<RecvStatus> { return {group.recv(view, source, step.number)}; },
      [&] { return group.irecv(view, source, step.number); });
}

// Receives that wait have theirs already: what is found is what the next receive takes.
void Player::probe(const Step& step, const Letter& letter, int source) {
  ++calls_;
  ProcessGroup& group = this->group(step.group);
  std::optional<MessageInfo> found;
  attempt(step.group, [&] {
    if (own_.one_in(2))
      found = group.iprobe(source, step.number);
    else
      found = group.probe(source, step.number);
  });
  if (!found) return;
  EXPECT_EQ(found->source, letter.from);
  EXPECT_EQ(found->tag, step.number);
  EXPECT_EQ(found->bytes, letter.count);
}

void Player::deliver(const Step& step, const Letter& letter) {
  if (letter.from == letter.to) return;
  if (rank() == letter.from) send(step, letter);
  if (rank() == letter.to) receive(step, letter);
}

void Player::message(const Step& step) { deliver(step, draw_letter(step)); }

// What one rank sends to another with one tag comes in the order in which it was sent.
void Player::series(const Step& step) {
  Letter letter = draw_letter(step);
  for (std::size_t number = 2 + common_.below(6); number > 0; --number) {
    letter.count = common_.one_in(6) ? draw_count(common_, 1, 1) : common_.below(200);
    ++letter.salt;
    deliver(step, letter);
  }
}

void Player::any_source_message(const Step& step) {
  const Letter first = draw_letter(step);
  std::vector<Letter> letters;
  for (const int member : script_.groups[step.group].members) {
    if (member == first.to || common_.one_in(4)) continue;
    letters.push_back(first);
    letters.back().from = member;
    if (common_.one_in(2)) letters.back().count = common_.below(500);
  }
  for (const Letter& letter : letters)
    if (rank() == letter.from) send(step, letter);
  if (rank() == first.to) receive_any(step, letters);
}

void Player::look_for_any(const Step& step, const std::vector<Letter>& letters) {
  ++calls_;
  std::optional<MessageInfo> found;
  attempt(step.group, [&] { found = this->group(step.group).iprobe(any_source, step.number); });
  if (!found) return;
  const auto letter = std::ranges::find(letters, found->source, &Letter::from);
  ASSERT_NE(letter, letters.end()) << "nothing was sent by rank " << found->source;
  EXPECT_EQ(found->bytes, letter->count);
}

/// As many receives as there are letters, each of which takes any of them.
void Player::receive_any(const Step& step, const std::vector<Letter>& letters) {
  std::size_t most = 0;
  for (const Letter& letter : letters) most = std::max(most, letter.count);
  ProcessGroup& group = this->group(step.group);
  const auto taken = std::make_shared<std::set<int>>();
  for (std::size_t number = 0; number < letters.size(); ++number) {
    const auto mail = std::make_shared<Mail>(most, step.number);
    const BufferView view = mail->buffer();
    if (is_refused(step.group, Request::recv(view, any_source, step.number))) return;
    if (own_.one_in(6)) look_for_any(step, letters);
    Flight flight{.step = step.number, .group = step.group, .what = "receive from any source"};
    flight.check = [mail, letters, taken](std::span<const RecvStatus> statuses) {
      const int source = statuses.front().source;
      EXPECT_TRUE(taken->insert(source).second) << "twice from rank " << source;
      const auto letter = std::find_if(letters.begin(), letters.end(),
                                       [&](const Letter& other) { return other.from == source; });
      ASSERT_NE(letter, letters.end()) << "nothing was sent by rank " << source;
      mail->check(statuses.front(), source, letter->count, letter->salt);
    };
    run_or_start(
        std::move(flight),
        [&]() -> std::vector<RecvStatus> { return {group.recv(view, any_source, step.number)}; },
        [&] { return group.irecv(view, any_source, step.number); });
  }
}

// A list for each rank, in an order of its own: no two are between the same ranks in the same
// direction.
void Player::batch(const Step& step) {
  std::vector<Letter> letters;
  std::set<std::pair<int, int>> pairs;
  for (std::size_t number = 1 + common_.below(6); number > 0; --number) {
    const Letter letter = draw_letter(step);
    if (letter.from == letter.to || !pairs.insert({letter.from, letter.to}).second) continue;
    if (rank() == letter.from || rank() == letter.to) letters.push_back(letter);
  }
  if (letters.empty()) return;
  ProcessGroup& group = this->group(step.group);
  for (std::size_t i = letters.size(); i-- > 1;) std::swap(letters[i], letters[own_.below(i + 1)]);
  std::vector<P2POp> operations;
  std::vector<std::shared_ptr<Buffer>> sent;
  std::vector<std::pair<Letter, std::shared_ptr<Mail>>> received;
  for (const Letter& letter : letters) {
    if (rank() == letter.from) {
      sent.push_back(written(letter.from, letter.count, letter.salt, own_.below(64)));
      operations.push_back(P2POp::send(*sent.back(), letter.to, step.number));
    } else {
      received.emplace_back(letter,
                            std::make_shared<Mail>(letter.count + own_.below(2) * 9, step.number));
      operations.push_back(P2POp::recv(received.back().second->buffer(), letter.from, step.number));
    }
  }
  for (const P2POp& operation : operations)
    if (is_refused(step.group, operation.request)) return;
  Flight flight{.step = step.number, .group = step.group, .what = "batch"};
  flight.check = [sent, received](std::span<const RecvStatus> statuses) {
    ASSERT_EQ(statuses.size(), received.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
      const auto& [letter, mail] = received[i];
      mail->check(statuses[i], letter.from, letter.count, letter.salt);
    }
  };
  std::vector<Request> requests;
  for (const P2POp& operation : operations) requests.push_back(operation.request);
  const bool has_scope = own_.one_in(3);
  const auto start = [&] {
    return has_scope ? in_scope(group, requests) : group.batch_isend_irecv(operations);
  };
  run_or_start(
      std::move(flight),
      [&]() -> std::vector<RecvStatus> {
        Work work = start();
        work.wait();
        return work.statuses();
      },
      start);
}

}  // namespace hymn::test
