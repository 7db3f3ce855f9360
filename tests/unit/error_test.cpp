// Errors: their text, and how they gain their context on the way up.
#include "hymn/error.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "base/error_context.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

const ErrorContext full{
    .rank = 2, .group = "layers", .operation = "all_reduce #41", .remedy = "try again"};

TEST(Error, TextOfAProblemAlone) {
  const UsageError error("the root is missing");
  EXPECT_STREQ(error.what(), "the root is missing");
  EXPECT_EQ(error.problem(), "the root is missing");
  EXPECT_EQ(error.context().rank, -1);
}

TEST(Error, TextNamesWhatIsKnown) {
  EXPECT_STREQ(UsageError("no", full).what(),
               "no [rank 2, group 'layers', all_reduce #41]; remedy: try again");
  EXPECT_STREQ(UsageError("no", {.rank = 0}).what(), "no [rank 0]");
  EXPECT_STREQ(UsageError("no", {.group = "g"}).what(), "no [group 'g']");
  EXPECT_STREQ(UsageError("no", {.operation = "barrier"}).what(), "no [barrier]");
  EXPECT_STREQ(UsageError("no", {.remedy = "wait"}).what(), "no; remedy: wait");
  EXPECT_STREQ(UsageError("no", {.rank = 1, .operation = "barrier"}).what(),
               "no [rank 1, barrier]");
  EXPECT_EQ(UsageError("no", full).problem(), "no");
}

TEST(Error, NamesOfKinds) {
  EXPECT_STREQ(to_string(ErrorKind::usage), "usage");
  EXPECT_STREQ(to_string(ErrorKind::unsupported), "unsupported");
  EXPECT_STREQ(to_string(ErrorKind::config), "config");
  EXPECT_STREQ(to_string(ErrorKind::timeout), "timeout");
  EXPECT_STREQ(to_string(ErrorKind::aborted), "aborted");
  EXPECT_STREQ(to_string(ErrorKind::peer), "peer");
  EXPECT_STREQ(to_string(ErrorKind::network), "network");
  EXPECT_STREQ(to_string(ErrorKind::store), "store");
  EXPECT_STREQ(to_string(ErrorKind::backend), "backend");
  EXPECT_STREQ(to_string(ErrorKind::resource), "resource");
  EXPECT_STREQ(to_string(ErrorKind::internal), "internal");
}

/// What rethrow_with(outer) makes of the exception that `raise` throws, for `look` to catch as E.
template <class E>
void rethrown_as(const std::function<void()>& raise, const ErrorContext& outer,
                 const std::function<void(const E&)>& look) {
  try {
    try {
      raise();
    } catch (...) {
      rethrow_with(outer);
    }
  } catch (const E& error) {
    look(error);
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing is thrown";
}

/// An E without context must come back as an E with all of it; one with a context of its own keeps
/// it.
template <class E>
void expect_context(ErrorKind kind, const std::function<void(const ErrorContext&)>& raise) {
  SCOPED_TRACE(to_string(kind));
  const std::string begin = kind == ErrorKind::timeout ? "timeout: " : "";
  const auto expect_text = [&](const ErrorContext& own, const ErrorContext& outer,
                               const std::string& text) {
    rethrown_as<E>([&] { raise(own); }, outer,
                   [&](const E& error) {
                     EXPECT_EQ(error.kind(), kind);
                     EXPECT_EQ(error.what(), begin + text);
                   });
  };
  expect_text({}, full, "no [rank 2, group 'layers', all_reduce #41]; remedy: try again");
  expect_text({.rank = 7, .remedy = "own"}, full,
              "no [rank 7, group 'layers', all_reduce #41]; remedy: own");
  expect_text({.group = "own", .operation = "recv #1"}, full,
              "no [rank 2, group 'own', recv #1]; remedy: try again");
  expect_text(full, {}, UsageError("no", full).what());
}

template <class E>
void expect_plain(ErrorKind kind) {
  expect_context<E>(kind, [](const ErrorContext& context) { throw E("no", context); });
}

TEST(ErrorContext, IsMergedForEveryKind) {
  expect_plain<UsageError>(ErrorKind::usage);
  expect_plain<UnsupportedError>(ErrorKind::unsupported);
  expect_plain<ConfigError>(ErrorKind::config);
  expect_plain<AbortedError>(ErrorKind::aborted);
  expect_plain<PeerError>(ErrorKind::peer);
  expect_plain<NetworkError>(ErrorKind::network);
  expect_plain<StoreError>(ErrorKind::store);
  expect_plain<ResourceError>(ErrorKind::resource);
  expect_context<TimeoutError>(ErrorKind::timeout, [](const ErrorContext& context) {
    throw TimeoutError("no", 3s, context);
  });
  expect_context<BackendError>(ErrorKind::backend, [](const ErrorContext& context) {
    throw BackendError("no", "MPI", 17, context);
  });
  expect_context<Error>(ErrorKind::internal, [](const ErrorContext& context) {
    throw Error(ErrorKind::internal, "no", context);
  });
}

TEST(ErrorContext, WhatATypeCarriesIsKept) {
  rethrown_as<TimeoutError>([] { throw TimeoutError("late", 1500ms); }, full,
                            [](const TimeoutError& error) { EXPECT_EQ(error.waited(), 1500ms); });
  rethrown_as<BackendError>([] { throw BackendError("broken", "MPI", 17); }, full,
                            [](const BackendError& error) {
                              EXPECT_EQ(error.backend(), "MPI");
                              EXPECT_EQ(error.code(), 17);
                            });
}

TEST(ErrorContext, LackOfMemoryBecomesAResourceError) {
  rethrown_as<ResourceError>([] { throw std::bad_alloc(); }, {.rank = 4, .operation = "gather #2"},
                             [](const ResourceError& error) {
                               EXPECT_EQ(error.kind(), ErrorKind::resource);
                               EXPECT_EQ(error.context().rank, 4);
                               EXPECT_EQ(error.context().operation, "gather #2");
                               EXPECT_NE(error.context().remedy.find("memory"), std::string::npos);
                             });
  rethrown_as<ResourceError>(
      [] { throw std::bad_array_new_length(); }, full,
      [](const ResourceError& error) { EXPECT_EQ(error.kind(), ErrorKind::resource); });
}

TEST(ErrorContext, ExceptionsOfOthersPassUnchanged) {
  rethrown_as<std::out_of_range>(
      [] { throw std::out_of_range("mine"); }, full,
      [](const std::out_of_range& error) { EXPECT_STREQ(error.what(), "mine"); });
  try {
    try {
      throw 42;  // NOLINT: whatever users throw
    } catch (...) {
      rethrow_with(full);
    }
  } catch (int thrown) {
    EXPECT_EQ(thrown, 42);
  }
}

}  // namespace
}  // namespace hymn::test
