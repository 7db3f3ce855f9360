// Where memory runs out, nothing that has come or is waited for is lost.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <new>

#include "hymn/error.hpp"
#include "p2p/tcp/tcp_mailbox.hpp"
#include "tests/unit/tcp_scene.hpp"

namespace {

constexpr int enough = -1;
thread_local int blocks_left = enough;

void* take(std::size_t bytes) {
  if (blocks_left == 0) throw std::bad_alloc();
  if (blocks_left != enough) --blocks_left;
  if (void* const block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

namespace hymn::test {
namespace {

/// False: it would have taken more than so many blocks.
template <class What>
bool is_done_with(int blocks, What what) {
  blocks_left = blocks;
  try {
    what();
  } catch (const std::bad_alloc&) {
    blocks_left = enough;
    return false;
  }
  blocks_left = enough;
  return true;
}

class Office final : public tcp::Post {
 public:
  void want(tcp::Incoming& message) override { message.granted = true; }
  void settle(tcp::Incoming& /*message*/) override {}
  void finish(tcp::Receiving& receive) override { receive.done = true; }
};

constexpr std::uint64_t message_bytes = 100;

std::shared_ptr<tcp::Incoming> begun_message() {
  auto message = std::make_shared<tcp::Incoming>();
  message->source = 0;
  message->tag = 1;
  message->bytes = message_bytes;
  return message;
}

class TcpMemory : public testing::TestWithParam<int> {
 protected:
  TcpMemory() {
    receive_.from = 0;
    receive_.tag = 1;
    receive_.data = room_.data();
    receive_.room = room_.size();
  }
  void post() {
    if (!is_done_with(GetParam(), [this] { box_.post(receive_); })) box_.post(receive_);
  }
  /// It is said again, as another one.
  void arrive() {
    message_ = begun_message();
    if (is_done_with(GetParam(), [this] { box_.arrive(message_); })) return;
    EXPECT_EQ(message_->receive, nullptr);
    EXPECT_EQ(box_.probe(0, 1), nullptr);
    message_ = begun_message();
    box_.arrive(message_);
  }
  void expect_that_it_comes() {
    ASSERT_EQ(message_->receive, &receive_);
    message_->arrive(0, message_bytes, true);
    box_.complete(*message_);
    EXPECT_TRUE(receive_.done);
    EXPECT_EQ(box_.probe(0, 1), nullptr);
    EXPECT_EQ(box_.close(), 0u);
  }

  Office office_;
  tcp::Mailbox box_{office_};
  std::array<std::byte, message_bytes> room_{};
  tcp::Receiving receive_;
  std::shared_ptr<tcp::Incoming> message_;
};

TEST_P(TcpMemory, AReceiveWaitsForItsMessage) {
  post();
  arrive();
  expect_that_it_comes();
}

TEST_P(TcpMemory, AReceiveThatCouldNotBePostedIsNotThere) {
  const bool is_posted = is_done_with(GetParam(), [this] { box_.post(receive_); });
  arrive();
  if (!is_posted) box_.post(receive_);
  expect_that_it_comes();
}

TEST_P(TcpMemory, AMessageWaitsForItsReceive) {
  arrive();
  post();
  expect_that_it_comes();
}

TEST_P(TcpMemory, AMessageWhoseReceiveIsGivenUpWaitsForTheNext) {
  post();
  arrive();
  bool kept = true;
  is_done_with(GetParam(), [&] { kept = box_.withdraw(receive_, true); });
  if (!kept) message_ = begun_message();
  if (!kept) box_.arrive(message_);
  post();
  expect_that_it_comes();
}

TEST(TcpLinkMemory, AMessageThatFindsNoneComesLater) {
  for (int blocks = 0; blocks < 40; ++blocks) {
    SCOPED_TRACE(blocks);
    TcpScene scene(2);
    const std::array all{pattern(1000, 1), pattern(300'000, 2)};
    std::array got{Block(1000), Block(300'000)};
    const auto out = scene.port(0)->open();
    const auto in = scene.port(1)->open();
    for (const Block& block : all) out->send(1, user(1), sent(block));
    for (Block& block : got) in->recv(0, user(1), room(block));
    for (int turns = 0; turns < 10; ++turns) {
      is_done_with(blocks, [&] { scene.net(0).turn(); });
      is_done_with(blocks, [&] { scene.net(1).turn(); });
    }
    bool out_done = false;
    bool in_done = false;
    ASSERT_TRUE(scene.until([&] {
      out_done = out_done || out->test();
      in_done = in_done || in->test();
      return out_done && in_done;
    }));
    EXPECT_EQ(got, all);
  }
}

/// A message to the second rank that is given up where there is so little memory, and another one
/// after it.
class GivenUp {
 public:
  explicit GivenUp(std::size_t bytes) : block_(pattern(bytes, 1)) {
    message_.to = 1;
    message_.tag = std::uint64_t{1} << 63 | 1;
    message_.data = reinterpret_cast<const std::byte*>(block_.data());
    message_.bytes = block_.size();
    scene_.port(0);
    scene_.port(1);
    scene_.net(0).start(message_);
  }
  bool is_begun() const { return message_.begun; }
  bool is_withdrawn_with(int blocks) {
    bool clean = false;
    is_done_with(blocks, [&] { clean = scene_.net(0).withdraw(message_); });
    return clean;
  }
  void expect_another() {
    Block got(block_.size());
    const Block next = pattern(10, 2);
    const auto out = scene_.port(0)->open();
    out->send(1, user(1), sent(next));
    const auto in = scene_.port(1)->open();
    in->recv(0, user(1), room(got));
    ASSERT_TRUE(scene_.until([&] { return in->test(); }));
    got.resize(in->status().count);
    EXPECT_EQ(got, next);
    ASSERT_TRUE(scene_.until([&] { return out->test(); }));
  }
  TcpScene& scene() { return scene_; }
  std::size_t bytes() const { return block_.size(); }

 private:
  const Block block_;
  TcpScene scene_{2};
  tcp::Sending message_;
};

TEST(TcpLinkMemory, TheEndOfAMessageThatIsGivenUpIsTold) {
  for (int blocks = 0; blocks < 8; ++blocks) {
    SCOPED_TRACE(blocks);
    GivenUp message(300'000);
    const auto there = message.scene().port(1);
    ASSERT_TRUE(message.scene().until([&] { return there->probe(0, user(1)).has_value(); }));
    EXPECT_TRUE(message.is_withdrawn_with(blocks));
    message.expect_another();
  }
}

TEST(TcpLinkMemory, TheEndOfAMessageThatIsGivenUpInItsMidstIsTold) {
  for (int blocks = 0; blocks < 8; ++blocks) {
    SCOPED_TRACE(blocks);
    GivenUp message(std::size_t{32} << 20);
    Block got(message.bytes());
    const auto in = message.scene().port(1)->open();
    in->recv(0, user(1), room(got));
    ASSERT_TRUE(message.scene().until([&] { return message.is_begun(); }));
    EXPECT_FALSE(message.is_withdrawn_with(blocks));
    EXPECT_THROW(message.scene().until([&] { return in->test(); }), AbortedError);
    message.expect_another();
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, TcpMemory, testing::Range(0, 4));

}  // namespace
}  // namespace hymn::test
