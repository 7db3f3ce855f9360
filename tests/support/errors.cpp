#include "tests/support/errors.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace hymn::test {
namespace {

template <class E>
bool is(const Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

bool has_class_of_kind(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::usage:
      return is<UsageError>(error);
    case ErrorKind::unsupported:
      return is<UnsupportedError>(error);
    case ErrorKind::config:
      return is<ConfigError>(error);
    case ErrorKind::timeout:
      return is<TimeoutError>(error);
    case ErrorKind::aborted:
      return is<AbortedError>(error);
    case ErrorKind::peer:
      return is<PeerError>(error);
    case ErrorKind::network:
      return is<NetworkError>(error);
    case ErrorKind::store:
      return is<StoreError>(error);
    case ErrorKind::backend:
      return is<BackendError>(error);
    case ErrorKind::resource:
      return is<ResourceError>(error);
    case ErrorKind::internal:
      return true;
  }
  return false;
}

std::string place(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

void check(const Error& error, ErrorKind kind, Words words, const std::source_location& where) {
  const std::string text = error.what();
  EXPECT_STREQ(to_string(error.kind()), to_string(kind)) << place(where) << ": " << text;
  EXPECT_TRUE(has_class_of_kind(error)) << place(where) << ": " << text;
  for (std::string_view word : words)
    EXPECT_NE(text.find(word), std::string::npos)
        << place(where) << ": '" << word << "' is missing in: " << text;
}

}  // namespace

std::string expect_error(ErrorKind kind, const std::function<void()>& call, Words words,
                         std::source_location where) {
  try {
    call();
  } catch (const Error& error) {
    check(error, kind, words, where);
    return error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << place(where) << ": not an hymn::Error: " << other.what();
    return other.what();
  }
  ADD_FAILURE() << place(where) << ": should throw a " << to_string(kind) << " error";
  return {};
}

void expect_refused(ProcessGroup& group, ErrorKind kind, std::string_view operation,
                    const std::function<void()>& call, Words words, std::source_location where) {
  const std::uint64_t collectives = group.collective_sequence();
  const std::uint64_t messages = group.p2p_sequence();
  const std::string rank = "rank " + std::to_string(group.global_rank(group.rank()));
  const std::string name = "group '" + group.description();
  const std::string text = expect_error(kind, call, words, where);
  for (std::string_view word : {std::string_view(rank), std::string_view(name), operation})
    EXPECT_NE(text.find(word), std::string::npos)
        << place(where) << ": '" << word << "' is missing in: " << text;
  EXPECT_EQ(group.collective_sequence(), collectives) << place(where) << ": counted a refused call";
  EXPECT_EQ(group.p2p_sequence(), messages) << place(where) << ": counted a refused call";
  // A message left over from the refused call would end up in this one.
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(group.size()), -1);
  std::vector<std::int32_t> expected(ranks.size());
  std::iota(expected.begin(), expected.end(), 0);
  const std::int32_t mine = group.rank();
  group.all_gather(view_of(mine), ranks);
  EXPECT_EQ(ranks, expected) << place(where) << ": the next call went wrong";
}

std::string error_text(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace hymn::test
