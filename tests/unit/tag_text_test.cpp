// How long tags are shown.
#include "base/tag_text.hpp"

#include <gtest/gtest.h>

namespace hymn::test {
namespace {

TEST(TagText, AShortOneIsShownAsItIs) {
  EXPECT_EQ(shown_tag(std::string(48, 'x')), std::string(48, 'x'));
  EXPECT_EQ(with_tag("pipeline"), " with tag 'pipeline'");
  EXPECT_EQ(with_tag(""), "");
}

TEST(TagText, ALongOneLosesItsMiddle) {
  const std::string shown = shown_tag("hymn:mesh:" + std::string(1000, '1') + ":2x500:0:1");
  EXPECT_EQ(shown, "hymn:mesh:" + std::string(19, '1') + "…" + std::string(6, '1') + ":2x500:0:1");
  EXPECT_EQ(shown.size(), longest_shown_tag);
}

TEST(TagText, LettersStayWhole) {
  std::string tag;
  for (int i = 0; i < 40; ++i) tag += "é";  // of two bytes each
  for (const std::string& shifted : {tag, "x" + tag, tag + "x"}) {
    const std::string shown = shown_tag(shifted);
    EXPECT_LE(shown.size(), longest_shown_tag);
    const std::size_t gap = shown.find("…");
    EXPECT_TRUE(shifted.starts_with(shown.substr(0, gap)));
    EXPECT_TRUE(shifted.ends_with(shown.substr(gap + 3)));
    EXPECT_EQ(static_cast<unsigned char>(shown[gap - 1]) & 0xc0, 0x80);
    EXPECT_NE(static_cast<unsigned char>(shown[gap + 3]) & 0xc0, 0x80);
  }
}

}  // namespace
}  // namespace hymn::test
