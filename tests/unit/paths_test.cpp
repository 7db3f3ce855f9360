// Which paths HYMN_PATH allows.
#include "base/paths.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string_view> allowed_by(std::string_view text) {
  const PathPolicy policy = PathPolicy::parse(text, "HYMN_PATH");
  EXPECT_EQ(policy.text(), text);
  std::vector<std::string_view> allowed;
  for (const std::string_view path : paths::all)
    if (policy.allows(path)) allowed.push_back(path);
  return allowed;
}

using Paths = std::vector<std::string_view>;

TEST(PathPolicy, AllowsEverythingUnlessTold) {
  EXPECT_EQ(allowed_by("").size(), paths::all.size());
  for (const std::string_view path : paths::all) EXPECT_TRUE(PathPolicy().allows(path));
}

TEST(PathPolicy, AllowsWhatIsNamed) {
  for (const std::string_view path : paths::all) EXPECT_EQ(allowed_by(path), Paths{path});
  EXPECT_EQ(allowed_by("mpi,exchange"), (Paths{"mpi", "exchange"}));
  EXPECT_EQ(allowed_by("exchange,mpi"),
            (Paths{"mpi", "exchange"}));  // preference is not its matter
  EXPECT_EQ(allowed_by("mpi,mpi"), Paths{"mpi"});
}

TEST(PathPolicy, ForbidsWhatIsNamedBehindACaret) {
  EXPECT_EQ(allowed_by("^mpi"), (Paths{"threads", "shm", "hierarchical", "mpi_p2p", "tcp",
                                       "exchange", "cuda_p2p", "nccl", "staged"}));
  EXPECT_EQ(allowed_by("^threads,mpi_p2p"),
            (Paths{"shm", "hierarchical", "mpi", "tcp", "exchange", "cuda_p2p", "nccl", "staged"}));
  EXPECT_EQ(allowed_by("^threads,shm,hierarchical,mpi,mpi_p2p,tcp,exchange,cuda_p2p,nccl,staged"),
            Paths{});
}

TEST(PathPolicy, RefusesUnknownNames) {
  for (const char* text : {"udp", "MPI", "mpi ", " mpi", "mpi,udp", "mpi,", ",mpi", ",", "^",
                           "^^mpi", "mpi,^exchange", "mpi;exchange"}) {
    try {
      PathPolicy::parse(text, "GroupOptions.path");
      ADD_FAILURE() << text << " is accepted";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("GroupOptions.path='" + std::string(text) + "'"));
      EXPECT_THAT(
          error.context().remedy,
          HasSubstr(
              "threads, shm, hierarchical, mpi, mpi_p2p, tcp, exchange, cuda_p2p, nccl, staged"));
    }
  }
}

}  // namespace
}  // namespace hymn::test
