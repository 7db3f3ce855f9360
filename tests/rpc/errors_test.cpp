// What a function throws at another worker.
#include <gmock/gmock.h>

#include <new>
#include <stdexcept>

#include "hymn/rpc_error.hpp"
#include "tests/rpc/workers.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

class OwnError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class UnknownError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const bool own_error_is_known = (rpc::register_error<OwnError>("test.OwnError"), true);
const auto fail = rpc::register_function("test.fail", [](const std::string& how) {
  if (how == "range") throw std::out_of_range("no seventh element");
  if (how == "memory") throw std::bad_alloc();
  if (how == "own") throw OwnError("mine");
  if (how == "unknown") throw UnknownError("nobody's");
  if (how == "number") throw 7;
  if (how == "words") throw std::string("only words");
  if (how == "long") throw std::out_of_range(std::string(std::size_t{3} << 20, 'x'));
  if (how == "long remedy")
    throw StoreError("no such key", {.remedy = std::string(std::size_t{3} << 20, 'x')});
  if (how == "store") throw StoreError("no such key", {.remedy = "set it"});
  if (how == "code") throw BackendError("it broke", "NCCL", 5);
  if (how == "timeout") throw TimeoutError("too slow", std::chrono::seconds(3), {.missing = {2}});
});
const auto fail_further = rpc::register_function(
    "test.fail_further",
    [](int rank, const std::string& how) { rpc::Agent::current().rpc_sync(rank, fail, how); });

template <class E>
void expect_thrown(rpc::Agent& agent, int rank, const std::string& how, const std::string& text) {
  try {
    agent.rpc_sync(rank, fail, how);
    ADD_FAILURE() << how << " was not thrown";
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
    EXPECT_THAT(error.what(), HasSubstr("test.fail"));
    EXPECT_THAT(error.what(), HasSubstr("errors_test.cpp"));
    const auto* const origin = dynamic_cast<const rpc::RemoteOrigin*>(&error);
    ASSERT_NE(origin, nullptr);
    EXPECT_EQ(origin->rank(), rank);
    EXPECT_EQ(origin->worker(), worker_name(rank));
    EXPECT_EQ(origin->function(), "test.fail");
  }
}

RANK_TEST(RpcErrors, ArriveAsThemselves) {
  EXPECT_TRUE(own_error_is_known);
  rpc::Agent agent = make_agent(world);
  for (int rank = 0; rank < world.size(); ++rank) {
    expect_thrown<std::out_of_range>(agent, rank, "range", "no seventh element");
    expect_thrown<std::bad_alloc>(agent, rank, "memory", "bad_alloc");
    expect_thrown<OwnError>(agent, rank, "own", "mine");
    expect_thrown<rpc::RemoteError>(agent, rank, "unknown", "UnknownError: nobody's");
    expect_thrown<rpc::RemoteError>(agent, rank, "number", "int: it is no std::exception");
    expect_thrown<rpc::RemoteError>(agent, rank, "words", "std::string: only words");
    expect_thrown<StoreError>(agent, rank, "store", "no such key");
    expect_thrown<BackendError>(agent, rank, "code", "it broke");
    expect_thrown<TimeoutError>(agent, rank, "timeout", "too slow");
  }
  agent.shutdown();
}

RANK_TEST(RpcErrors, KeepWhatTheySay) {
  rpc::Agent agent = make_agent(world);
  const int rank = world.size() - 1;
  try {
    agent.rpc_sync(rank, fail, "store");
  } catch (const StoreError& error) {
    EXPECT_EQ(error.context().rank, rank);
    EXPECT_EQ(error.context().remedy, "set it");
  }
  try {
    agent.rpc_sync(rank, fail, "code");
  } catch (const BackendError& error) {
    EXPECT_EQ(error.backend(), "NCCL");
    EXPECT_EQ(error.code(), 5);
  }
  try {
    agent.rpc_sync(rank, fail, "timeout");
  } catch (const TimeoutError& error) {
    EXPECT_EQ(error.waited(), std::chrono::seconds(3));
    EXPECT_THAT(error.context().missing, testing::ElementsAre(2));
  }
  agent.shutdown();
}

/// A caller takes messages that are smaller than some texts.
RANK_TEST(RpcErrors, AreCutWhereTheyAreLong) {
  rpc::AgentOptions options;
  options.max_message_bytes = std::size_t{64} << 10;
  rpc::Agent agent = make_agent(world, options);
  for (int rank = 0; rank < world.size(); ++rank) {
    expect_thrown<std::out_of_range>(agent, rank, "long", "[…, 3145728 bytes]");
    expect_thrown<StoreError>(agent, rank, "long remedy", "[…, 3145728 bytes]");
  }
  agent.shutdown();
  options.max_message_bytes = 1000;
  EXPECT_THROW(make_agent(world, options), UsageError);
}

template <class E>
void expect_from_behind(rpc::Agent& agent, int last, const std::string& how) {
  try {
    agent.rpc_sync(0, fail_further, last, how);
    ADD_FAILURE() << how << " was not thrown";
  } catch (const E& error) {
    const auto* const origin = dynamic_cast<const rpc::RemoteOrigin*>(&error);
    ASSERT_NE(origin, nullptr);
    EXPECT_EQ(origin->rank(), last);
    EXPECT_EQ(origin->function(), "test.fail");
    // Where it comes from is told once.
    const std::string text = error.what();
    EXPECT_EQ(text.find(worker_name(last)), text.rfind(worker_name(last))) << text;
  }
}

/// From a worker behind the one that was called: types and texts are passed on as they are.
RANK_TEST(RpcErrors, NameWhereTheyComeFrom) {
  rpc::Agent agent = make_agent(world);
  const int last = world.size() - 1;
  expect_from_behind<std::out_of_range>(agent, last, "range");
  expect_from_behind<std::bad_alloc>(agent, last, "memory");
  expect_from_behind<OwnError>(agent, last, "own");
  expect_from_behind<rpc::RemoteError>(agent, last, "unknown");
  expect_from_behind<StoreError>(agent, last, "store");
  agent.shutdown();
}

}  // namespace
}  // namespace hymn::test
