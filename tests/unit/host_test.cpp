// The name and the key of this host.
#include "topology/host.hpp"

#include <gtest/gtest.h>

namespace hymn::test {
namespace {

TEST(Host, KeyIsTheNameAndTheBootId) {
  const std::string key = host_key();
  EXPECT_EQ(key, host_key());
  ASSERT_FALSE(host_name().empty());
  EXPECT_TRUE(key.starts_with(host_name() + "/")) << key;
  EXPECT_GT(key.size(), host_name().size() + 1) << "the boot id is missing in " << key;
}

}  // namespace
}  // namespace hymn::test
