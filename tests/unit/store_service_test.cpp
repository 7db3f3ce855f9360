// The server of a store without its network, at times of the test's own; and what it is told.
#include "control/store_service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

class StoreServiceTest : public ::testing::Test {
 protected:
  bool ask(int client, StoreRequest request) {
    request.id = ++id;
    return service.handle(client, request, now);
  }
  bool set(const std::string& key) { return ask(9, {.call = StoreCall::set, .keys = {key}}); }
  bool wait_for(int client, std::vector<std::string> keys, Duration time) {
    return ask(client, {.call = StoreCall::wait, .keys = std::move(keys), .wait_ns = time.count()});
  }

  std::vector<std::string> answers;  ///< of those that wait
  std::uint64_t id = 0;
  TimePoint now = TimePoint() + 100s;
  StoreService service{[this](int client, const StoreReply& reply) {
    if (client == 9) return;
    std::string text = std::to_string(client);
    text += reply.outcome == StoreOutcome::done ? " done" : " missing";
    for (const std::string& key : reply.texts) text += " " + key;
    answers.push_back(text);
  }};
};

TEST_F(StoreServiceTest, AnswersWhenAllKeysAreThereAtOnce) {
  EXPECT_TRUE(wait_for(1, {"a", "b"}, 10s));
  set("a");
  EXPECT_TRUE(answers.empty());
  ask(9, {.call = StoreCall::erase, .keys = {"a"}});
  set("b");
  EXPECT_TRUE(answers.empty());
  set("a");
  EXPECT_THAT(answers, ElementsAre("1 done"));
  EXPECT_FALSE(wait_for(2, {"a", "b"}, 0s));
  EXPECT_THAT(answers, ElementsAre("1 done", "2 done"));
}

TEST_F(StoreServiceTest, AnswersWhenTheTimeIsOver) {
  EXPECT_FALSE(wait_for(1, {"a"}, 0s));
  EXPECT_THAT(answers, ElementsAre("1 missing a"));
  wait_for(2, {"a", "b"}, 10s);
  wait_for(3, {"b"}, 5s);
  EXPECT_TRUE(ask(4, {.call = StoreCall::get, .keys = {"c"}, .wait_ns = -1}));
  EXPECT_EQ(service.next_deadline().when(), now + 5s);
  set("a");
  service.expire(now + 4s);
  EXPECT_EQ(answers.size(), 1u);
  service.expire(now + 5s);
  EXPECT_THAT(answers, ElementsAre("1 missing a", "3 missing b"));
  EXPECT_EQ(service.next_deadline().when(), now + 10s);
  service.expire(now + 20s);
  EXPECT_THAT(answers, ElementsAre("1 missing a", "3 missing b", "2 missing b"));
  EXPECT_TRUE(service.next_deadline().is_never());
  service.expire(TimePoint::max() - 1s);
  EXPECT_EQ(answers.size(), 3u) << "who waits for ever is not answered";
}

TEST_F(StoreServiceTest, WhateverChangesAKeyWakesThoseThatWaitForIt) {
  for (const char* key : {"set", "added", "swapped"}) wait_for(1, {key}, 10s);
  set("set");
  EXPECT_THAT(answers, ElementsAre("1 done"));
  ask(9, {.call = StoreCall::add, .keys = {"added"}, .delta = 1});
  EXPECT_EQ(answers.size(), 2u);
  ask(9, {.call = StoreCall::compare_set, .keys = {"swapped"}, .value = Bytes(3)});
  EXPECT_EQ(answers.size(), 3u);
}

TEST_F(StoreServiceTest, ForgetsThoseThatAreGone) {
  wait_for(1, {"a"}, 5s);
  wait_for(2, {"a"}, 7s);
  service.forget(1);
  EXPECT_EQ(service.next_deadline().when(), now + 7s);
  set("a");
  EXPECT_THAT(answers, ElementsAre("2 done"));
}

TEST(StoreMessages, GoToBytesAndBack) {
  const StoreRequest request{.id = 7,
                             .call = StoreCall::compare_set,
                             .keys = {"key"},
                             .value = Bytes(3, std::byte{1}),
                             .expected = Bytes(2, std::byte{2}),
                             .delta = -5,
                             .wait_ns = -1};
  EXPECT_EQ(unpack_request(pack(request)), request);
  const StoreReply reply{.id = 8,
                         .outcome = StoreOutcome::missing,
                         .number = -3,
                         .value = Bytes(4, std::byte{3}),
                         .texts = {"a", ""}};
  EXPECT_EQ(unpack_reply(pack(reply)), reply);
}

TEST(StoreMessages, MalformedOnesAreRefused) {
  const StoreRequest good{.call = StoreCall::get, .keys = {"key"}};
  const Bytes bytes = pack(good);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_THROW(unpack_request(std::span(bytes).first(i)), NetworkError) << i;
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THROW(unpack_request(longer), NetworkError);
  auto with = [&good](auto change) {
    StoreRequest request = good;
    change(request);
    return pack(request);
  };
  EXPECT_THROW(unpack_request(with([](auto& r) { r.keys.clear(); })), NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.keys.push_back("b"); })), NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.call = StoreCall::num_keys; })), NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.call = static_cast<StoreCall>(8); })),
               NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.keys[0].resize(65537); })), NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.value.resize((16 << 20) + 1); })), NetworkError);
  EXPECT_THROW(unpack_request(with([](auto& r) { r.expected.resize((16 << 20) + 1); })),
               NetworkError);
  EXPECT_THROW(unpack_reply(pack(StoreReply{.outcome = StoreOutcome::error, .texts = {"one"}})),
               NetworkError);
  EXPECT_THROW(unpack_reply(pack(StoreReply{.outcome = static_cast<StoreOutcome>(3)})),
               NetworkError);
}

}  // namespace
}  // namespace hymn::test
